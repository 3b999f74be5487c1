//! PDF files, well-formed and hostile, through the sealed child.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use pdf_extract::{Document, EncryptionState, EncryptionVersion, Permissions};
use tempfile::TempDir;

use super::*;
use hermes_system::clock::SystemClock;
use hermes_system::rng::SystemChance;

/// Longest wait for a child; only a failing test reaches it.
const LONG: Duration = Duration::from_secs(120);

/// The argument that makes the child attempt forbidden actions.
const ATTEMPTS: &str = "--attempts";

/// The child side of every test here: the test starts this executable again with these arguments.
///
/// An ordinary run lacks the argument, and nothing happens.
#[test]
fn text_runner_child() {
    if std::env::args().any(|argument| argument == SUBCOMMAND) {
        match std::env::args().any(|argument| argument == ATTEMPTS) {
            true => attempts(),
            false => drop(child::main()),
        }
        // Not through the harness, which would print.
        std::process::exit(0);
    }
}

/// Returns the command that starts this test executable as the child.
pub(super) fn command() -> Vec<OsString> {
    let path = module_path!().split_once("::").unwrap().1;
    let child = format!("{path}::text_runner_child");
    let words = ["/proc/self/exe", "--exact", &child, "--nocapture", "--test-threads=1", "--", SUBCOMMAND];
    words.map(OsString::from).to_vec()
}

/// Attempts the actions that a sealed child may not take, and answers with those that succeeded.
fn attempts() {
    let host = rustix::process::getppid().unwrap();
    let (mut socket, is_sealed) = sealed::enter(std::env::args_os(), LIMITS).unwrap();
    let mut open = Vec::new();
    let mut attempt = |name: &str, is_open: bool| open.extend(is_open.then(|| name.to_owned()));
    attempt("seal", is_sealed.is_err());
    attempt("read", File::open("/proc/self/exe").is_ok());
    attempt("list", std::fs::read_dir("/").is_ok());
    attempt("create", File::create("/tmp/of-a-sealed-child").is_ok());
    attempt("remove", std::fs::remove_file("/tmp/of-a-sealed-child").is_ok());
    attempt("stat", std::fs::metadata("/").is_ok());
    attempt("tcp", std::net::TcpListener::bind("127.0.0.1:0").is_ok() || TcpStream::connect("127.0.0.1:9").is_ok());
    attempt("unix", UnixStream::pair().is_ok());
    attempt("process", std::process::Command::new("/bin/true").spawn().is_ok());
    attempt("thread", std::thread::Builder::new().spawn(|| ()).is_ok());
    attempt("signal", rustix::process::kill_process(host, rustix::process::Signal::CONT).is_ok());
    let mut memory: Vec<u8> = Vec::new();
    attempt("memory", memory.try_reserve_exact(usize::try_from(LIMITS.address_bytes_max).unwrap()).is_ok());
    // The answer of this test has its own form.
    socket.write_all(format!("open: {open:?}").as_bytes()).unwrap();
}

fn media() -> (TempDir, Media) {
    let home = tempfile::tempdir().unwrap();
    let media = Media::new(home.path().join("media"), Arc::new(SystemChance), Arc::new(SystemClock));
    (home, media)
}

async fn text(bytes: &[u8]) -> Result<PdfText, String> {
    let (home, media) = media();
    let path = home.path().join("x");
    std::fs::write(&path, bytes).unwrap();
    media.pdf_text(File::open(path).unwrap(), bytes.len() as u64, Instant::now() + LONG).await
}

/// Builds a file: numbers the objects from 1 and writes the table of their offsets. The first is the catalogue.
fn file(objects: &[Vec<u8>], trailer: &str) -> Vec<u8> {
    let mut file = b"%PDF-1.5\n".to_vec();
    let mut table = String::new();
    for (at, object) in objects.iter().enumerate() {
        let _ = writeln!(table, "{:010} 00000 n ", file.len());
        file.extend(format!("{} 0 obj\n", at + 1).into_bytes());
        file.extend(object);
        file.extend(b"\nendobj\n");
    }
    let (size, start) = (objects.len() + 1, file.len());
    let table = format!(
        "xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\nstartxref\n{start}\n%%EOF\n"
    );
    file.extend(table.into_bytes());
    file
}

fn stream(words: &str, content: &[u8]) -> Vec<u8> {
    let mut stream = format!("<< {words} /Length {} >>\nstream\n", content.len()).into_bytes();
    stream.extend(content);
    stream.extend(b"\nendstream");
    stream
}

const CATALOGUE: &str = "<< /Type /Catalog /Pages 2 0 R >>";
const FONT: &str = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>";
const AREA: &str = "/MediaBox [0 0 595 842]";

/// Builds a file of pages, each with its entries and its content stream. Object 3 is a font.
pub(crate) fn pages(pages: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len()).map(|at| format!("{} 0 R", 4 + 2 * at)).collect();
    let mut objects = vec![
        CATALOGUE.into(),
        format!("<< /Type /Pages /Count {} /Kids [{}] >>", pages.len(), kids.join(" ")).into_bytes(),
        FONT.into(),
    ];
    for (at, (words, content)) in pages.iter().enumerate() {
        let page = format!("<< /Type /Page /Parent 2 0 R {words} /Contents {} 0 R >>", 5 + 2 * at);
        objects.push(page.into_bytes());
        objects.push(content.clone());
    }
    file(&objects, "")
}

/// Builds a page with one line.
pub(crate) fn page(text: &str) -> (&'static str, Vec<u8>) {
    let content = format!("BT /F1 12 Tf 72 720 Td ({text}) Tj ET");
    ("/MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>", stream("", content.as_bytes()))
}

/// Returns a stream of `matches` times 258 blanks, which deflate encodes in 13 bits each.
fn bomb(matches: usize) -> Vec<u8> {
    let mut bytes = vec![0x78, 0x9c];
    let (mut bits, mut count) = (0_u64, 0);
    let mut put = |value: u64, width: u32, bytes: &mut Vec<u8>| {
        bits |= value << count;
        count += width;
        while count >= 8 {
            bytes.push((bits & 0xff) as u8);
            bits >>= 8;
            count -= 8;
        }
    };
    // The last block, with fixed codes; a blank; then each time length 258 at distance 1, codes with their first bit first.
    put(0b011, 3, &mut bytes);
    put(0b0000_1010, 8, &mut bytes);
    for _ in 0..matches {
        put(0b1010_0011, 13, &mut bytes);
    }
    put(0, 7, &mut bytes);
    put(0, 7, &mut bytes);
    bytes
}

/// Builds a file of one page, encrypted with this user password.
fn locked(password: &str) -> Vec<u8> {
    let id = "/ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>]";
    let (words, content) = page("behind a lock");
    let objects = [
        CATALOGUE.into(),
        b"<< /Type /Pages /Count 1 /Kids [4 0 R] >>".to_vec(),
        FONT.into(),
        format!("<< /Type /Page /Parent 2 0 R {words} /Contents 5 0 R >>").into_bytes(),
        content,
    ];
    let mut document = Document::load_mem(&file(&objects, id)).unwrap();
    let version = EncryptionVersion::V2 {
        document: &document,
        owner_password: "owner",
        user_password: password,
        key_length: 128,
        permissions: Permissions::default(),
    };
    let state = EncryptionState::try_from(version).unwrap();
    document.encrypt(&state).unwrap();
    let mut bytes = Vec::new();
    document.save_to(&mut bytes).unwrap();
    bytes
}

fn encrypted() -> Vec<u8> {
    let (key, text) = ("00".repeat(32), page("secret"));
    let objects = [
        CATALOGUE.into(),
        b"<< /Type /Pages /Count 1 /Kids [4 0 R] >>".to_vec(),
        FONT.into(),
        format!("<< /Type /Page /Parent 2 0 R {} /Contents 5 0 R >>", text.0).into_bytes(),
        text.1,
        format!("<< /Filter /Standard /V 1 /R 2 /P -4 /O <{key}> /U <{key}> >>").into_bytes(),
    ];
    file(&objects, "/Encrypt 6 0 R /ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>]")
}

#[tokio::test]
async fn a_sealed_child_opens_no_file_no_socket_no_process_and_no_more_memory() {
    let mut attempts = command();
    attempts.push(ATTEMPTS.into());
    let answer = sealed::exchange(attempts, File::open("/dev/null").unwrap(), 1024, LONG).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&answer.answer), "open: []", "{}", answer.ended);
}

#[tokio::test]
async fn the_text_of_every_page_is_extracted_in_order() {
    let found = text(&pages(&[page("First page, \\374ber"), page("Second page")])).await.unwrap();
    assert_eq!(found, PdfText { text: "First page, \u{fc}ber\n\nSecond page".to_owned(), gaps: None });
    let packed = pages(&[(page("").0, stream("/Filter /FlateDecode", &bomb(1))), page("behind blanks")]);
    let found = text(&packed).await.unwrap();
    assert_eq!(found.text, "behind blanks");
    assert_eq!(found.gaps.as_deref(), Some("1 page of 2 without text may be scanned images."));
}

#[tokio::test]
async fn a_file_that_opens_without_a_password_is_read_and_one_with_a_password_is_not() {
    assert_eq!(text(&locked("")).await.unwrap().text, "behind a lock");
    let sentence = "The PDF file is encrypted, so its text is not available.";
    assert_eq!(text(&locked("reader")).await.unwrap_err(), sentence);
    assert_eq!(text(&encrypted()).await.unwrap_err(), sentence, "an encryption that is no real one");
}

#[tokio::test]
async fn a_page_that_cannot_be_read_costs_no_other_page() {
    let broken = ("", page("no area").1);
    let found = text(&pages(&[page("one"), broken.clone(), page("three"), broken])).await.unwrap();
    assert_eq!(found.text, "one\n\nthree");
    assert_eq!(found.gaps.as_deref(), Some("2 pages of 4 could not be read."));
}

#[tokio::test]
async fn a_file_without_readable_text_gets_one_true_sentence() {
    let whole = pages(&[page("text")]);
    let scan = pages(&[(AREA, stream("", b"q 595 0 0 842 0 0 cm Q"))]);
    let unread = pages(&[("", page("no area").1)]);
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("scanned", scan, "The PDF file contains no text; its pages may be scanned images."),
        ("unreadable", unread, "No page of the PDF file could be read, so its text is not available."),
        ("empty", pages(&[]), "The PDF file has no pages."),
        ("cut", whole[..whole.len() / 2].to_vec(), "The PDF file is damaged, so its text is not available."),
        ("header alone", b"%PDF-1.7\n".to_vec(), "The PDF file is damaged, so its text is not available."),
        (
            "noise",
            [b"%PDF-1.7\n".to_vec(), (0..=255).cycle().take(100_000).collect()].concat(),
            "The PDF file is damaged, so its text is not available.",
        ),
    ];
    for (name, bytes, sentence) in cases {
        assert_eq!(text(&bytes).await.unwrap_err(), sentence, "{name}");
    }
}

#[tokio::test]
async fn a_hostile_file_ends_at_the_limits_of_its_child() {
    let form =
        stream("/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 5 0 R >> >>", b"/X Do");
    let calls_itself = file(
        &[
            CATALOGUE.into(),
            b"<< /Type /Pages /Count 1 /Kids [3 0 R] >>".to_vec(),
            format!("<< /Type /Page /Parent 2 0 R {AREA} /Resources << /XObject << /X 5 0 R >> >> /Contents 4 0 R >>")
                .into(),
            stream("", b"/X Do"),
            form,
        ],
        "",
    );
    let bytes = 2 * usize::try_from(LIMITS.address_bytes_max).unwrap();
    let unpacks = pages(&[(page("").0, stream("/Filter /FlateDecode", &bomb(bytes / 258)))]);
    for (name, bytes) in [("calls itself", calls_itself), ("unpacks", unpacks)] {
        assert_eq!(text(&bytes).await.unwrap_err(), beyond_limits(), "{name}");
    }
    let own_child = file(&[CATALOGUE.into(), b"<< /Type /Pages /Count 1 /Kids [2 0 R 2 0 R] >>".to_vec()], "");
    let found = text(&own_child).await;
    assert!(found.is_err(), "pages within themselves: {found:?}");
}

#[tokio::test]
async fn the_pages_before_a_limit_are_kept_and_the_text_is_reported_as_incomplete() {
    let bytes = 2 * usize::try_from(LIMITS.address_bytes_max).unwrap();
    let bomb = (page("").0, stream("/Filter /FlateDecode", &bomb(bytes / 258)));
    let found = text(&pages(&[page("one"), bomb, page("three")])).await.unwrap();
    assert_eq!(found.text, "one");
    let incomplete = "The text is incomplete, because extraction reached its limit of length, time or memory.";
    assert_eq!(found.gaps.as_deref(), Some(incomplete));
    let many: Vec<_> = (1..=10_000).map(|n| page(&format!("page {n}"))).collect();
    let found = text(&pages(&many)).await.unwrap();
    assert!(found.text.starts_with("page 1\n\npage 2\n"), "{}", found.text.len());
    assert!(found.text.ends_with("page 10000") || found.gaps.as_deref() == Some(incomplete), "{:?}", found.gaps);
    let long = "long ".repeat(TEXT_BYTES_MAX / 50);
    let found = text(&pages(&vec![page(&long); 15])).await.unwrap();
    assert!(found.text.len() <= TEXT_BYTES_MAX && found.gaps.as_deref() == Some(incomplete), "{:?}", found.gaps);
}

#[tokio::test]
async fn a_child_that_is_too_slow_is_ended_at_the_deadline_of_the_turn() {
    let (home, media) = media();
    let bytes = pages(&[page("text")]);
    let path = home.path().join("x");
    std::fs::write(&path, &bytes).unwrap();
    let read = async |until| media.pdf_text(File::open(&path).unwrap(), bytes.len() as u64, until).await;
    assert_eq!(read(Instant::now()).await.unwrap_err(), beyond_limits());
    assert_eq!(read(Instant::now() + LONG).await.unwrap().text, "text", "its room is free again");
    let large = media.pdf_text(File::open(&path).unwrap(), FILE_BYTES_MAX + 1, Instant::now() + LONG).await;
    assert_eq!(large.unwrap_err(), "The PDF file is larger than 32 MB, the limit of text extraction.");
}

#[test]
fn a_header_is_found_where_readers_look_for_it() {
    assert!(begins_pdf(b"%PDF-1.4") && begins_pdf(b"\xef\xbb\xbf\r\n%PDF-2.0"));
    assert!(!begins_pdf(b"A file begins with %PDF-1.4"));
    assert!(is_pdf(b"\0\0junk %PDF-1.4") && !is_pdf(&[vec![b' '; 1024], b"%PDF-".to_vec()].concat()));
}
