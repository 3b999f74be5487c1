//! The reader of library files, which checks all bounds before any code of a file can run.
//!
//! `dlopen` runs constructors, so every check of the bytes is made here. This reader follows the program headers like
//! the loader does, except for the manifest: the loader ignores its section.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use hermes_adapter_abi::MANIFEST_SECTION;
use hermes_protocol::Manifest;
use object::{
    Endianness, FileKind, Object, ObjectSection, ReadCache, ReadRef,
    elf::{self, FileHeader64},
    read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader},
};
use rustix::fs::{Mode, OFlags};
use serde::Deserialize;

use super::{LoadError, negotiate};

/// The largest file that is read, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// The largest manifest, in bytes.
const MANIFEST_BYTES_MAX: usize = 64 * 1024;

/// The longest name of a needed library that is read, in bytes.
const NAME_BYTES_MAX: u64 = 4096;

/// Entries of the dynamic table that are read.
const DYNAMIC_ENTRIES_MAX: usize = 4096;

/// The result of reading a file.
#[derive(Clone, Debug)]
pub(super) struct ElfLibrary {
    /// The parsed manifest.
    pub(super) manifest: Manifest,
    /// The JSON bytes of the manifest in the section.
    pub(super) manifest_json: String,
    /// A warning if the plugin is newer than this host but allows it.
    pub(super) warning: Option<String>,
}

/// Reads the file at `path`.
pub(super) fn read(path: &Path) -> Result<ElfLibrary, LoadError> {
    read_copy(path, path)
}

/// Reads `copy`; refusals name `path`. Only the needed parts are read.
pub(super) fn read_copy(path: &Path, copy: &Path) -> Result<ElfLibrary, LoadError> {
    let unreadable = |error: std::io::Error| LoadError::Unreadable { path: path.to_owned(), why: error.to_string() };
    // NONBLOCK: opening a pipe does not wait for a writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(copy, flags, Mode::empty()).map_err(|error| unreadable(error.into()))?);
    let meta = file.metadata().map_err(unreadable)?;
    if !meta.is_file() {
        return Err(LoadError::NotRegular { path: path.to_owned() });
    }
    if meta.len() > FILE_BYTES_MAX {
        return Err(unreadable(std::io::Error::other(format!("the file is larger than {FILE_BYTES_MAX} bytes"))));
    }
    parse(path, &ReadCache::new(file))
}

/// Checks the bytes of the file at `path`.
fn parse<'data, R: ReadRef<'data>>(path: &Path, bytes: R) -> Result<ElfLibrary, LoadError> {
    let not_a_library =
        |why: &dyn std::fmt::Display| LoadError::NotALibrary { path: path.to_owned(), why: why.to_string() };
    let expected = format!("64-bit {}", std::env::consts::ARCH);
    match FileKind::parse(bytes) {
        Ok(FileKind::Elf64) => {}
        Ok(FileKind::Elf32) => {
            return Err(LoadError::WrongMachine { path: path.to_owned(), found: "32-bit ELF".to_owned(), expected });
        }
        Ok(_) => return Err(not_a_library(&"not a 64-bit ELF file")),
        Err(_) => return Err(not_a_library(&"not an ELF file")),
    }
    let file = ElfFile64::<Endianness, R>::parse(bytes).map_err(|error| not_a_library(&error))?;
    let header: &FileHeader64<Endianness> = file.elf_header();
    let endian = file.endian();
    if header.e_type(endian) != elf::ET_DYN {
        return Err(not_a_library(&"the ELF type is not a shared object"));
    }
    let machine = header.e_machine(endian);
    let little = endian == Endianness::Little;
    if host_machine().is_some_and(|host| host != machine) || little != cfg!(target_endian = "little") {
        return Err(LoadError::WrongMachine { path: path.to_owned(), found: machine_name(machine), expected });
    }
    check_dynamic(path, bytes, header, endian)?;
    let (manifest, manifest_json) = read_manifest(path, &file)?;
    let warning = negotiate::judge(path, &manifest)?;
    Ok(ElfLibrary { manifest, manifest_json, warning })
}

/// The fields of a manifest that every major version keeps, so that a file of another major is refused for its version.
#[derive(Deserialize)]
struct Versions {
    sdk: String,
}

fn read_manifest<'data, R: ReadRef<'data>>(
    path: &Path,
    file: &ElfFile64<'data, Endianness, R>,
) -> Result<(Manifest, String), LoadError> {
    let bad = |why: String| LoadError::BadManifest { path: path.to_owned(), why };
    let section =
        file.section_by_name(MANIFEST_SECTION).ok_or_else(|| LoadError::NoSection { path: path.to_owned() })?;
    let bytes = section.data().map_err(|error| bad(format!("the section cannot be read ({error})")))?;
    if bytes.is_empty() {
        return Err(LoadError::NoSection { path: path.to_owned() });
    }
    if bytes.len() > MANIFEST_BYTES_MAX {
        return Err(bad(format!("it has {} bytes, the limit is {MANIFEST_BYTES_MAX}", bytes.len())));
    }
    let json = std::str::from_utf8(bytes).map_err(|_| bad("it is not UTF-8".to_owned()))?;
    let json = json.trim_end_matches('\0');
    let versions: Versions = serde_json::from_str(json).map_err(|error| bad(error.to_string()))?;
    negotiate::same_major(path, &versions.sdk)?;
    let manifest: Manifest = serde_json::from_str(json).map_err(|error| bad(error.to_string()))?;
    Ok((manifest, json.to_owned()))
}

/// Refuses what the loader cannot handle: static thread-local storage and another C library.
fn check_dynamic<'data, R: ReadRef<'data>>(
    path: &Path,
    bytes: R,
    header: &FileHeader64<Endianness>,
    endian: Endianness,
) -> Result<(), LoadError> {
    let broken = |error: object::Error| LoadError::NotALibrary { path: path.to_owned(), why: error.to_string() };
    let segments = header.program_headers(endian, bytes).map_err(broken)?;
    let mut flags = 0_u64;
    let mut strings = 0_u64;
    let mut needed = Vec::new();
    for segment in segments {
        let Some(entries) = segment.dynamic(endian, bytes).map_err(broken)? else { continue };
        for entry in entries.iter().take(DYNAMIC_ENTRIES_MAX) {
            let value = entry.d_val(endian);
            match u32::try_from(entry.d_tag(endian)) {
                Ok(elf::DT_FLAGS) => flags |= value,
                Ok(elf::DT_STRTAB) => strings = value,
                Ok(elf::DT_NEEDED) => needed.push(value),
                Ok(elf::DT_NULL) => break,
                _ => {}
            }
        }
    }
    if flags & u64::from(elf::DF_STATIC_TLS) != 0 {
        return Err(LoadError::StaticTls { path: path.to_owned() });
    }
    // The dynamic table names the string table by address. The segment that holds the address gives its offset in the
    // file.
    let table = segments.iter().find_map(|segment| {
        let start = segment.p_vaddr(endian);
        let inside = segment.p_type(endian) == elf::PT_LOAD
            && strings.checked_sub(start).is_some_and(|offset| offset < segment.p_filesz(endian));
        inside.then(|| segment.p_offset(endian).checked_add(strings - start))?
    });
    for name in needed {
        let Some(offset) = table.and_then(|table| table.checked_add(name)) else { continue };
        let end = offset.saturating_add(NAME_BYTES_MAX);
        let Ok(name) = bytes.read_bytes_at_until(offset..end, 0) else { continue };
        check_libc(path, &String::from_utf8_lossy(name))?;
    }
    Ok(())
}

/// Refuses a library that needs another C library than this host.
fn check_libc(path: &Path, needed: &str) -> Result<(), LoadError> {
    let musl = needed.starts_with("libc.musl-") || needed.starts_with("ld-musl-");
    let glibc = needed == "libc.so.6";
    let (foreign, expected) = if cfg!(target_env = "musl") { (glibc, "musl") } else { (musl, "glibc") };
    if foreign {
        return Err(LoadError::WrongLibc {
            path: PathBuf::from(path),
            found: needed.to_owned(),
            expected: expected.to_owned(),
        });
    }
    Ok(())
}

/// Returns the ELF number of the host's machine, or `None` for an unlisted architecture.
fn host_machine() -> Option<u16> {
    match std::env::consts::ARCH {
        "x86_64" => Some(elf::EM_X86_64),
        "aarch64" => Some(elf::EM_AARCH64),
        "riscv64" => Some(elf::EM_RISCV),
        "powerpc64" => Some(elf::EM_PPC64),
        "s390x" => Some(elf::EM_S390),
        _ => None,
    }
}

fn machine_name(machine: u16) -> String {
    match machine {
        elf::EM_X86_64 => "64-bit x86_64".to_owned(),
        elf::EM_AARCH64 => "64-bit aarch64".to_owned(),
        elf::EM_RISCV => "64-bit riscv64".to_owned(),
        elf::EM_PPC64 => "64-bit powerpc64".to_owned(),
        elf::EM_S390 => "64-bit s390x".to_owned(),
        other => format!("ELF machine {other}"),
    }
}
