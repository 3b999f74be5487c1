//! Passes the target triple to the SDK; Cargo provides it only to build scripts.

#[expect(clippy::disallowed_methods, reason = "cargo hands a build script its facts through the environment")]
fn main() {
    let target = std::env::var("TARGET").expect("cargo sets TARGET");
    println!("cargo:rustc-env=HERMES_TARGET={target}");
    println!("cargo:rerun-if-changed=build.rs");
}
