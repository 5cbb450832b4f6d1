//! The fuzz targets on their committed corpora: what they hold, and what was once found, stays true.

use crate::fuzz::TARGETS;
use crate::support::files;
use std::path::Path;

#[test]
fn every_corpus_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let named: Vec<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let found: Vec<String> =
        files(&folder).iter().filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
    assert_eq!(found, named, "one corpus a target");
    for (name, run) in TARGETS {
        let corpus = files(&folder.join(name));
        assert!(corpus.len() >= 10, "the corpus of {name} is gone");
        for path in corpus {
            println!("{}", path.display());
            run(&std::fs::read(&path).unwrap());
        }
    }
}
