//! A minimal adapter with an incompatible allocator.
//!
//! Each block that it returns begins 4 KiB after the start of the block from the system. If another allocator
//! frees memory of this library, the process therefore ends at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use hermes_adapter_sdk::prelude::*;

const SHIFT: usize = 4096;

struct Shifting;

// SAFETY: a block is allocated SHIFT bytes larger than requested and returned SHIFT bytes after its start, and
// SHIFT is a multiple of every accepted alignment.
unsafe impl GlobalAlloc for Shifting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(whole) = widened(layout) else { return std::ptr::null_mut() };
        // SAFETY: `whole` is not empty.
        let start = unsafe { System.alloc(whole) };
        if start.is_null() {
            return start;
        }
        // SAFETY: the block has SHIFT bytes more than `layout`.
        unsafe { start.add(SHIFT) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(whole) = widened(layout) else { return };
        // SAFETY: the caller guarantees that the block is from `alloc`, so its start is SHIFT bytes before it.
        let start = unsafe { block.sub(SHIFT) };
        // SAFETY: the block was allocated with this layout.
        unsafe { System.dealloc(start, whole) }
    }
}

fn widened(layout: Layout) -> Option<Layout> {
    let size = layout.size().checked_add(SHIFT)?;
    (layout.align() <= SHIFT).then(|| Layout::from_size_align(size, layout.align()).ok())?
}

#[global_allocator]
static ALLOCATOR: Shifting = Shifting;

#[derive(AdapterConfig)]
struct Config {
    /// Prefix of its log records.
    #[serde(default)]
    name: String,
}

struct Foreign {
    name: String,
    host: Host,
    sent: AtomicU64,
}

impl Adapter for Foreign {
    const MANIFEST: Manifest = manifest! {
        id: "foreign",
        label: "Foreign",
        transport: "none",
        text: { limit: 4096, unit: "scalars", dialect: "plain" },
        platform_hint: "Room for what the museum writes over a manifest, which must not grow. It is long enough for another id and for a demand on the host.",
    };
    type Config = Config;

    fn new(config: Config, host: Host) -> Self {
        Self { name: config.name, host, sent: AtomicU64::new(0) }
    }

    async fn connect(&self) -> Result<(), ConnectError> {
        tracing::info!("{} connects", self.name);
        Ok(())
    }

    async fn send(&self, message: Outgoing) -> SendOutcome {
        tracing::info!("{} sends {}", self.name, message.text);
        let number = self.sent.fetch_add(1, Ordering::Relaxed).to_string();
        if let Some(text) = message.text.strip_prefix("emit ") {
            let event = Event::message(format!("m:1:{number}"), Chat::dm("1"), Sender::new("1"), text);
            if let Err(error) = self.host.emit(&event).await {
                return SendOutcome::refused(RefusalKind::Invalid, error.to_string());
            }
        }
        SendOutcome::delivered(number, self.host.now_ms())
    }
}

export_adapter!(Foreign);
