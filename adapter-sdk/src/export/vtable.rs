//! The functions that the host calls.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::time::Duration;

use abi_stable::library::{__call_root_module_loader, CheckTypeLayout, LibHeader, RootModuleResult};
use abi_stable::prefix_type::WithMetadata;
use abi_stable::std_types::{RErr, ROk, RResult, RSlice, RStr, RString};
use hermes_adapter_abi::{
    AdapterMod, AdapterMod_Ref, Completion, HostHandle, Instance, InstanceVt, InstanceVt_Ref, status,
};

use super::pointers::{answer, host_port};
use crate::answer::Reply;
use crate::dispatch::Exported;
use crate::guard::guard;
use crate::instance::{self, DestroyResult, InstanceHandle};

/// Returns the static that `export_adapter!` exports: header, layouts, and the constructor of the root.
pub const fn lib_header<A: Exported>() -> LibHeader {
    // SAFETY: `load` returns the erased form of an `AdapterMod_Ref`, which is the type named here.
    unsafe { LibHeader::from_constructor::<AdapterMod_Ref>(load::<A>, CheckTypeLayout::Yes) }
}

/// Returns the root module. Contains its own panic barrier. `[any-thread & loaded]`
extern "C" fn load<A: Exported>() -> RootModuleResult {
    __call_root_module_loader(root::<A>)
}

/// Returns the root module of `A`.
pub(crate) fn root<A: Exported>() -> AdapterMod_Ref {
    AdapterMod_Ref(Vtables::<A>::ROOT.as_prefix())
}

/// The owner of one set of static vtables per adapter type.
struct Vtables<A>(PhantomData<A>);

impl<A: Exported> Vtables<A> {
    abi_stable::staticref! {
        const ROOT: WithMetadata<AdapterMod> = WithMetadata::new(AdapterMod {
            manifest: manifest::<A>,
            config_schema: config_schema::<A>,
            create: create::<A>,
            check_config: check_config::<A>,
        });
        const INSTANCE: WithMetadata<InstanceVt> = WithMetadata::new(InstanceVt {
            call: call::<A>,
            cancel: cancel::<A>,
            shutdown: shutdown::<A>,
            destroy: destroy::<A>,
        });
    }
}

/// Returns the manifest, identical byte by byte to the ELF section. `[any-thread & loaded]`
extern "C" fn manifest<A: Exported>() -> RStr<'static> {
    let text = guard(|| std::str::from_utf8(A::manifest()).unwrap_or_default()).unwrap_or_default();
    RStr::from_str(text)
}

/// Returns the JSON Schema of the adapter's own config keys. `[any-thread & loaded]`
extern "C" fn config_schema<A: Exported>() -> RString {
    let schema = guard(|| {
        let schema = schemars::schema_for!(A::Config);
        serde_json::to_string(&schema).unwrap_or_default()
    });
    RString::from(schema.unwrap_or_default())
}

/// Returns the error in the adapter's own keys, or an empty text. `[any-thread & loaded]`
extern "C" fn check_config<A: Exported>(config: RSlice<'_, u8>) -> RString {
    let judged = guard(|| instance::check_config::<A>(config.as_slice()));
    RString::from(match judged {
        Ok(Ok(())) => String::new(),
        Ok(Err(sentence)) => sentence,
        Err(message) => format!("panic in `check`: {message}"),
    })
}

/// Creates an instance. Takes ownership of `host` in any case. `[any-thread & loaded]`
extern "C" fn create<A: Exported>(host: HostHandle, envelope: RSlice<'_, u8>) -> RResult<Instance, RString> {
    let host = host_port(host);
    match guard(|| instance::create::<A>(host, envelope.as_slice())) {
        Ok(Ok(handle)) => ROk(Instance {
            this: Box::into_raw(Box::new(handle)).cast(),
            vtable: InstanceVt_Ref(Vtables::<A>::INSTANCE.as_prefix()),
        }),
        Ok(Err(sentence)) => RErr(RString::from(sentence)),
        Err(message) => RErr(RString::from(format!("panic in `create`: {message}"))),
    }
}

/// Returns the handle behind `this`; `None` for null.
///
/// # Safety
///
/// `this` is null, or an `Instance.this` of adapter `A` that is not destroyed during `'call`.
unsafe fn handle<'call, A: Exported>(this: *mut c_void) -> Option<&'call InstanceHandle<A>> {
    // SAFETY: guaranteed by the caller.
    unsafe { this.cast::<InstanceHandle<A>>().as_ref() }
}

/// Starts a call; never blocks. `[any-thread & started]`
extern "C" fn call<A: Exported>(
    this: *mut c_void,
    id: u64,
    method: RStr<'_>,
    payload: RSlice<'_, u8>,
    reply: Completion,
) {
    let answer = answer(reply);
    // On a panic the answer is dropped, which answers DROPPED.
    let _ = guard(|| {
        // SAFETY: the host calls with an instance of this vtable that is not destroyed.
        let Some(handle) = (unsafe { handle::<A>(this) }) else { return };
        handle.call(id, method.as_str(), payload.as_slice(), answer);
    });
}

/// Cancels a call; an unknown id does nothing. `[any-thread & started]`
extern "C" fn cancel<A: Exported>(this: *mut c_void, id: u64) {
    // A panic cannot be reported here; the call continues.
    let _ = guard(|| {
        // SAFETY: the host calls with an instance of this vtable that is not destroyed.
        if let Some(handle) = unsafe { handle::<A>(this) } {
            handle.cancel(id);
        }
    });
}

/// Shuts the instance down; never blocks. `[any-thread & started]`
extern "C" fn shutdown<A: Exported>(this: *mut c_void, deadline_ms: u64, reply: Completion) {
    let answer = answer(reply);
    let _ = guard(|| {
        // SAFETY: the host calls with an instance of this vtable that is not destroyed.
        match unsafe { handle::<A>(this) } {
            Some(handle) => handle.shutdown(deadline_ms, answer),
            None => answer.fire(Reply::error(status::ERR, "invalid", "there is no instance")),
        }
    });
}

/// Joins the instance's thread. Returns 0 if it is joined and freed, 1 if it is stuck. `[blocking-thread & once]`
extern "C" fn destroy<A: Exported>(this: *mut c_void, deadline_ms: u64) -> u32 {
    const JOINED: u32 = 0;
    const STUCK: u32 = 1;
    if this.is_null() {
        return JOINED;
    }
    let destroyed = guard(|| {
        // SAFETY: `this` is the box made in `create`; the host destroys an instance once and
        // calls nothing else on it afterwards.
        let handle: Box<InstanceHandle<A>> = unsafe { Box::from_raw(this.cast()) };
        match handle.destroy(Duration::from_millis(deadline_ms)) {
            DestroyResult::Joined => JOINED,
            DestroyResult::Stuck(handle) => {
                // The thread still uses the handle's contents: nothing is freed.
                Box::leak(handle);
                STUCK
            }
        }
    });
    destroyed.unwrap_or(STUCK)
}
