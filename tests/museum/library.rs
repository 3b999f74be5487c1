//! A built library with modified bytes, as produced by an attack or a fault.

use std::{fs, ops::Range, path::Path};

use object::{
    Endianness, Object, ObjectSection, ObjectSymbol,
    elf::{self, FileHeader64},
    read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader, SectionHeader},
};
use serde_json::{Map, Value};

const SECTION: &str = ".hermes.adapter";
/// Symbol that the loader looks up.
const ROOT: &str = "_1as_0lib_1header_0root_bmodule_bloader";
/// Bytes of abi_stable's magic string, before its version numbers.
const MAGIC_BYTES: usize = 32;

type Elf<'bytes> = ElfFile64<'bytes, Endianness>;

/// The bytes of a library.
#[derive(Clone)]
pub struct Library(Vec<u8>);

impl Library {
    pub fn read(path: &Path) -> Self {
        Self(fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    pub fn write(&self, path: &Path) {
        fs::write(path, &self.0).expect("the folder is ours");
    }

    fn elf(&self) -> Elf<'_> {
        Elf::parse(&*self.0).expect("it is a library")
    }

    fn section(&self) -> Range<usize> {
        let elf = self.elf();
        let section = elf.section_by_name(SECTION).expect("it has a manifest");
        let (start, size) = section.file_range().expect("a manifest has bytes");
        usize_of(start)..usize_of(start + size)
    }

    pub fn manifest(&self) -> Map<String, Value> {
        serde_json::from_slice(&self.0[self.section()]).expect("a manifest is an object")
    }

    /// Replaces the manifest both in the section and in the data, so that the running library also reports the
    /// new one.
    pub fn with_manifest(mut self, change: impl FnOnce(&mut Map<String, Value>)) -> Self {
        let place = self.section();
        let mut manifest = self.manifest();
        change(&mut manifest);
        let mut json = serde_json::to_vec(&manifest).expect("a manifest is JSON");
        assert!(json.len() <= place.len(), "{} bytes do not fit into {}", json.len(), place.len());
        json.resize(place.len(), b' ');
        self.0[place].copy_from_slice(&json);
        self
    }

    /// Changes the id; the space for it is taken from the hint.
    pub fn called(self, id: &str) -> Self {
        self.with_manifest(|manifest| {
            manifest.remove("platform_hint");
            manifest.insert("id".to_owned(), id.into());
        })
    }

    /// Replaces the manifest for readers of the file only; the running library reports its own.
    pub fn with_two_faces(mut self) -> Self {
        let mut manifest = self.manifest();
        manifest.insert("label".to_owned(), "Another".into());
        let json = serde_json::to_vec(&manifest).expect("a manifest is JSON");
        let header = self.section_header();
        let end = self.0.len() as u64;
        // Fields sh_offset and sh_size of an Elf64_Shdr.
        self.0[header + 0x18..header + 0x20].copy_from_slice(&end.to_le_bytes());
        self.0[header + 0x20..header + 0x28].copy_from_slice(&(json.len() as u64).to_le_bytes());
        self.0.extend_from_slice(&json);
        self
    }

    /// Renames the section, so that it is not found by its name.
    pub fn without_section(mut self) -> Self {
        let name = [SECTION.as_bytes(), b"\0"].concat();
        let at = self.0.windows(name.len()).rposition(|bytes| bytes == name).expect("section names are in the file");
        self.0[at + 1] = b'H';
        self
    }

    /// Declares static thread-local storage, like a library with jemalloc.
    pub fn with_static_tls(mut self) -> Self {
        let at = {
            let elf = self.elf();
            let (endian, header) = (elf.endian(), elf.elf_header());
            let segments = header.program_headers(endian, &*self.0).expect("it has segments");
            let segment = segments.iter().find(|segment| segment.p_type(endian) == elf::PT_DYNAMIC);
            let segment = segment.expect("it has a dynamic table");
            let entries = segment.dynamic(endian, &*self.0).expect("it can be read").expect("it is one");
            let number = entries.iter().position(|entry| entry.d_tag(endian) == u64::from(elf::DT_FLAGS));
            usize_of(segment.p_offset(endian)) + number.expect("rustc links with flags") * 16 + 8
        };
        let flags = u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"));
        self.0[at..at + 8].copy_from_slice(&(flags | u64::from(elf::DF_STATIC_TLS)).to_le_bytes());
        self
    }

    /// Replaces the header by that of another minor version of abi_stable.
    pub fn with_another_header(mut self) -> Self {
        let at = {
            let elf = self.elf();
            let symbol = elf.dynamic_symbols().find(|symbol| symbol.name() == Ok(ROOT)).expect("it exports its root");
            let section = elf.section_by_index(symbol.section_index().expect("it is defined")).expect("it is there");
            let (start, _) = section.file_range().expect("it has bytes");
            usize_of(start + symbol.address() - section.address())
        };
        assert!(self.0[at..].starts_with(b"abi stable library for Rust"), "abi_stable's header looks another way");
        let minor = at + MAGIC_BYTES + 4;
        assert_eq!(self.0[minor], 11, "abi_stable's minor");
        self.0[minor] = 10;
        self
    }

    /// Truncates the file to this share of its bytes.
    pub fn cut_off_after(mut self, percent: usize) -> Self {
        self.0.truncate(self.0.len() / 100 * percent);
        self
    }

    /// Appends a byte without meaning, so that the file has another hash.
    pub fn with_another_hash(mut self, number: u8) -> Self {
        self.0.push(number);
        self
    }

    /// Returns the exported symbols, sorted.
    pub fn exports(&self) -> Vec<String> {
        let elf = self.elf();
        let mut names: Vec<String> = elf
            .dynamic_symbols()
            .filter(|symbol| symbol.is_definition() && symbol.is_global())
            .map(|symbol| symbol.name().expect("names are text").to_owned())
            .collect();
        names.sort();
        names
    }

    /// Returns true if the library contains a symbol table or debug information, which stripping removes.
    pub fn has_symbols(&self) -> bool {
        let elf = self.elf();
        elf.section_by_name(".symtab").is_some() || elf.section_by_name(".debug_info").is_some()
    }

    fn section_header(&self) -> usize {
        let elf = self.elf();
        let (endian, header) = (elf.endian(), elf.elf_header());
        let index = elf.section_by_name(SECTION).expect("it has a manifest").index().0;
        let headers = header.section_headers(endian, &*self.0).expect("it has sections");
        assert!(headers[index].sh_size(endian) > 0);
        usize_of(FileHeader64::e_shoff(header, endian)) + index * usize::from(header.e_shentsize(endian))
    }
}

fn usize_of(number: u64) -> usize {
    usize::try_from(number).expect("a file fits into memory")
}
