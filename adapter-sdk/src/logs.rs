//! A bridge from `tracing` to the host's log, by thread.
//!
//! A library has one copy of every static for all its instances, so only the panic hook is
//! global: each instance's thread (and each thread of its blocking pool) has the instance's
//! own subscriber as its default. Two instances of one library keep their logs separate.
//!
//! A record consists of a level, a target and a JSON object of fields; the field `span`
//! contains its spans as `outer{key=value}:inner`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use hermes_protocol::text::prefix;
use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, Interest};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

use crate::host_port::HostPort;

/// The maximum length of one field's text, in bytes.
const FIELD_BYTES_MAX: usize = 8 * 1024;
/// The maximum number of written spans.
const SPANS_MAX: usize = 16;

thread_local! {
    /// The host of this thread's instance.
    static CURRENT: RefCell<Option<Arc<dyn HostPort>>> = const { RefCell::new(None) };
    /// The subscriber of a pool thread, for the lifetime of the thread.
    static KEPT: RefCell<Option<Route>> = const { RefCell::new(None) };
    /// The entered spans of this thread.
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// A guard that routes this thread's records to one instance's log until it is dropped.
pub(crate) struct Route {
    _subscriber: DefaultGuard,
}

impl Drop for Route {
    fn drop(&mut self) {
        // At the end of a thread its storage may be gone already, and the route with it.
        let _ = CURRENT.try_with(|current| current.borrow_mut().take());
    }
}

/// Routes this thread's records to the log of `host`.
pub(crate) fn route(host: &Arc<dyn HostPort>) -> Route {
    CURRENT.with(|current| *current.borrow_mut() = Some(Arc::clone(host)));
    let bridge = Bridge { host: Arc::clone(host), spans: Mutex::default() };
    Route { _subscriber: tracing::dispatcher::set_default(&Dispatch::new(bridge)) }
}

/// Does the same until [`end_route`].
pub(crate) fn route_for_ever(host: &Arc<dyn HostPort>) {
    KEPT.with(|kept| *kept.borrow_mut() = Some(route(host)));
}

/// Ends [`route_for_ever`].
pub(crate) fn end_route() {
    let _ = KEPT.try_with(|kept| kept.borrow_mut().take());
}

/// Sends the panics of adapter threads to the host's log instead of stderr. The library has
/// its own copy of std, so the hook sees no panics of other libraries.
pub(crate) fn forward_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| match current() {
            Some(host) => log_panic(&*host, info),
            None => previous(info),
        }));
    });
}

fn log_panic(host: &dyn HostPort, info: &PanicHookInfo<'_>) {
    let message = info
        .payload()
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| info.payload().downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let fields = json!({ "message": cut(message.to_owned()), "place": place });
    host.log(1, "panic", &fields.to_string());
}

/// Returns the host of this thread's instance.
pub(crate) fn current() -> Option<Arc<dyn HostPort>> {
    CURRENT.try_with(|current| current.try_borrow().ok().and_then(|host| host.clone())).ok().flatten()
}

/// Returns the host's number of a level: 1 is an error, 5 a trace.
fn number(level: &Level) -> u8 {
    match *level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

pub(crate) fn cut(mut text: String) -> String {
    if text.len() > FIELD_BYTES_MAX {
        text.truncate(prefix(&text, FIELD_BYTES_MAX).len());
        text.push('…');
    }
    text
}

/// The subscriber of one instance on one thread.
struct Bridge {
    host: Arc<dyn HostPort>,
    spans: Mutex<BTreeMap<u64, OpenSpan>>,
}

struct OpenSpan {
    /// `name{key=value}`
    text: String,
    references: usize,
}

impl Bridge {
    fn spans(&self) -> MutexGuard<'_, BTreeMap<u64, OpenSpan>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the entered spans, the outermost first.
    fn path(&self) -> String {
        let entered = ENTERED.try_with(|entered| entered.borrow().clone()).unwrap_or_default();
        let spans = self.spans();
        let texts: Vec<&str> =
            entered.iter().filter_map(|id| spans.get(id)).take(SPANS_MAX).map(|span| span.text.as_str()).collect();
        texts.join(":")
    }
}

impl Subscriber for Bridge {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // The host may change the level at run time.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        number(metadata.level()) <= self.host.max_level()
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let text = fields.in_braces(attributes.metadata().name());
        self.spans().insert(id, OpenSpan { text, references: 1 });
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        let mut spans = self.spans();
        if let Some(span) = spans.get_mut(&span.into_u64()) {
            if span.text.len() < FIELD_BYTES_MAX {
                span.text = fields.in_braces(&span.text);
            }
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let path = self.path();
        if !path.is_empty() {
            fields.0.insert("span".to_owned(), Value::String(cut(path)));
        }
        let metadata = event.metadata();
        self.host.log(number(metadata.level()), metadata.target(), &Value::Object(fields.0).to_string());
    }

    fn enter(&self, span: &Id) {
        let _ = ENTERED.try_with(|entered| entered.borrow_mut().push(span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        let _ = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            if let Some(at) = entered.iter().rposition(|id| *id == span.into_u64()) {
                entered.remove(at);
            }
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = self.spans().get_mut(&id.into_u64()) {
            span.references += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut spans = self.spans();
        let Some(span) = spans.get_mut(&id.into_u64()) else { return false };
        span.references = span.references.saturating_sub(1);
        if span.references == 0 {
            spans.remove(&id.into_u64());
            return true;
        }
        false
    }
}

/// A record's fields as JSON.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }

    /// Returns `name{key=value,…}`, or the name alone.
    fn in_braces(&self, name: &str) -> String {
        if self.0.is_empty() {
            return name.to_owned();
        }
        let pairs: Vec<String> = self
            .0
            .iter()
            .map(|(key, value)| match value {
                Value::String(text) => format!("{key}={text}"),
                other => format!("{key}={other}"),
            })
            .collect();
        cut(format!("{name}{{{}}}", pairs.join(",")))
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        // Writing to a string fails only if the value's own Debug fails.
        let _ = write!(text, "{value:?}");
        self.put(field, Value::String(cut(text)));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::String(cut(value.to_owned())));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }
}
