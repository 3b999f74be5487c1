//! The layout of the binary interface: sizes, offsets and order. A change here is a change of the ABI.

use core::mem::{align_of, offset_of, size_of};

use hermes_adapter_abi::{
    ABI_VERSION, AdapterMod, AdapterMod_Ref, Completion, HostHandle, HostVt, HostVt_Ref, Instance, InstanceVt,
    InstanceVt_Ref, MANIFEST_SECTION, Status, status,
};

#[test]
fn structs_that_cross_keep_their_layout() {
    assert_eq!((size_of::<Completion>(), align_of::<Completion>()), (16, 8));
    assert_eq!((offset_of!(Completion, ctx), offset_of!(Completion, done)), (0, 8));
    assert_eq!((size_of::<HostHandle>(), align_of::<HostHandle>()), (16, 8));
    assert_eq!((offset_of!(HostHandle, ctx), offset_of!(HostHandle, vtable)), (0, 8));
    assert_eq!((size_of::<Instance>(), align_of::<Instance>()), (16, 8));
    assert_eq!((offset_of!(Instance, this), offset_of!(Instance, vtable)), (0, 8));
    assert_eq!([size_of::<HostVt_Ref>(), size_of::<InstanceVt_Ref>(), size_of::<AdapterMod_Ref>()], [8; 3]);
}

#[test]
fn functions_keep_their_order() {
    assert_eq!(
        [offset_of!(HostVt, call), offset_of!(HostVt, log), offset_of!(HostVt, max_level), offset_of!(HostVt, release)],
        [0, 8, 16, 24]
    );
    assert_eq!(
        [
            offset_of!(InstanceVt, call),
            offset_of!(InstanceVt, cancel),
            offset_of!(InstanceVt, shutdown),
            offset_of!(InstanceVt, destroy)
        ],
        [0, 8, 16, 24]
    );
    assert_eq!(
        [
            offset_of!(AdapterMod, manifest),
            offset_of!(AdapterMod, config_schema),
            offset_of!(AdapterMod, create),
            offset_of!(AdapterMod, check_config)
        ],
        [0, 8, 16, 24]
    );
}

#[test]
fn numbers_and_names_keep_their_meaning() {
    assert_eq!(ABI_VERSION, 1);
    assert_eq!(MANIFEST_SECTION, ".hermes.adapter");
    let statuses: [Status; 7] =
        [status::OK, status::ERR, status::UNSUPPORTED, status::BUSY, status::PANIC, status::DROPPED, status::POISONED];
    assert_eq!(statuses, [0, 1, 2, 3, 4, 5, 6]);
}
