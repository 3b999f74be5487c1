//! Opening a library: the system's loader, the ABI header and the layout check.
//!
//! abi_stable's own checked load refuses an older plugin in a newer host. Therefore the layout check runs in both
//! directions, and the module is then taken unchecked: the accessors of the newer side return `None` for the fields
//! that the other side lacks.

use std::{ffi::c_int, mem::ManuallyDrop, path::Path, sync::Arc};

use abi_stable::{
    StableAbi,
    abi_stability::abi_checking::check_layout_compatibility,
    library::{AbiHeaderRef, IsLayoutChecked, LibHeader, LibraryError, ROOT_MODULE_LOADER_NAME_WITH_NUL},
    std_types::{RResult, RSlice},
};
use hermes_adapter_abi::AdapterMod_Ref;
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};
use thiserror::Error;

use super::{ForeignInstance, HostPort, PAYLOAD_BYTES_MAX, callbacks};

/// Never unmap. glibc and musl use the same value; `libloading` has no constant for it.
const RTLD_NODELETE: c_int = 0x1000;

/// The reason why a library cannot be used. The caller knows the file.
#[derive(Clone, Debug, Error)]
pub enum OpenError {
    /// The system's loader refused the library.
    #[error("{0}")]
    Loader(String),
    /// The library has no root module.
    #[error("it exports no adapter root")]
    NoRoot,
    /// Its header belongs to another version of `abi_stable` or another calling convention.
    #[error("its ABI header differs")]
    Header,
    /// The layout of its functions differs. Carries the checker's long text, for the debug log.
    #[error("the layout of its functions differs")]
    Layout(String),
}

/// An opened library, which stays open for the rest of the process.
#[derive(Clone, Copy)]
pub struct Library {
    module: AdapterMod_Ref,
}

impl Library {
    /// Opens the library at `path`, which must be a private copy that is no longer written.
    ///
    /// Runs the library's constructors, so all checks of its bytes have to come before.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let flags = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE;
        // SAFETY: constructors of a library run here, which is what loading a plugin means; the caller has judged its bytes.
        let handle = unsafe { Handle::open(Some(path), flags) };
        let handle = ManuallyDrop::new(handle.map_err(|error| OpenError::Loader(error.to_string()))?);
        // SAFETY: the symbol's name is abi_stable's own, so its address is that of a header; the magic
        // bytes are compared below before anything behind them is read.
        let symbol = unsafe { handle.get::<AbiHeaderRef>(ROOT_MODULE_LOADER_NAME_WITH_NUL.as_bytes()) };
        let header: AbiHeaderRef = *symbol.map_err(|_| OpenError::NoRoot)?;
        let header = header.upgrade().map_err(|_| OpenError::Header)?;
        Self::take(header)
    }

    fn take(header: &'static LibHeader) -> Result<Self, OpenError> {
        let IsLayoutChecked::Yes(theirs) = header.root_mod_consts().layout() else {
            return Err(OpenError::Layout("it has no layout".to_owned()));
        };
        let ours = <AdapterMod_Ref as StableAbi>::LAYOUT;
        if let Err(forth) = check_layout_compatibility(ours, theirs) {
            check_layout_compatibility(theirs, ours).map_err(|_| OpenError::Layout(forth.to_string()))?;
        }
        // SAFETY: the layouts were compared above, and one side is the superset of the other.
        let module = unsafe { header.init_root_module_with_unchecked_layout::<AdapterMod_Ref>() };
        match module {
            Ok(module) => Ok(Self { module }),
            Err(LibraryError::RootModule { .. }) => Err(OpenError::NoRoot),
            Err(_) => Err(OpenError::Header),
        }
    }

    /// Returns the manifest that the library reports.
    pub fn manifest(&self) -> String {
        (self.module.manifest())().as_str().to_owned()
    }

    /// Returns the JSON Schema of the adapter's own config keys.
    pub fn config_schema(&self) -> String {
        (self.module.config_schema())().into_string()
    }

    /// Asks the adapter to check its own keys, a JSON object. Returns its error message; empty if there is none.
    /// `None`: the library is too old for this question.
    pub fn check_config(&self, config: &[u8]) -> Option<String> {
        let sentence = (self.module.check_config()?)(RSlice::from_slice(config));
        let bytes = sentence.as_str().as_bytes();
        Some(String::from_utf8_lossy(&bytes[..bytes.len().min(PAYLOAD_BYTES_MAX)]).into_owned())
    }

    /// Returns `true` if the adapter can check its values.
    pub fn judges_values(&self) -> bool {
        self.module.check_config().is_some()
    }

    /// Creates an instance that calls `port`. Blocks as long as the adapter's constructor does.
    ///
    /// # Errors
    ///
    /// The adapter's error message.
    pub fn create(&self, port: Arc<dyn HostPort>, envelope: &[u8]) -> Result<ForeignInstance, String> {
        let number = callbacks::enter(port);
        match (self.module.create())(callbacks::handle(number), RSlice::from_slice(envelope)) {
            RResult::ROk(instance) => Ok(ForeignInstance::new(instance, number)),
            RResult::RErr(sentence) => {
                callbacks::forget(number);
                let bytes = sentence.as_str().as_bytes();
                Err(String::from_utf8_lossy(&bytes[..bytes.len().min(PAYLOAD_BYTES_MAX)]).into_owned())
            }
        }
    }
}
