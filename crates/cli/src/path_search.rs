//! Finds paths in the working directory for the completion of `@path`.
//!
//! The tree is listed on a thread of its own and kept for a few seconds, so that a key never waits long for a large
//! tree.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of paths that are searched. Paths nearest to the working directory come first.
const MAX_LISTED: usize = 50_000;
const FRESH: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_millis(40);

#[derive(Default)]
struct Listing {
    paths: Arc<Vec<String>>,
    listed_at: Option<Instant>,
    is_being_made: bool,
}

pub struct PathSearch {
    dir: PathBuf,
    listing: Arc<(Mutex<Listing>, Condvar)>,
}

fn locked(listing: &Mutex<Listing>) -> MutexGuard<'_, Listing> {
    listing.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PathSearch {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir, listing: Arc::default() }
    }

    /// The paths that contain the letters of `wanted` in this order, best first. Returns none if the first listing of
    /// the tree takes longer than `PATIENCE`.
    pub fn find(&self, wanted: &str, most: usize) -> Vec<String> {
        let wanted = wanted.to_lowercase();
        let paths = self.paths();
        let mut found: Vec<(u32, &String)> = paths
            .iter()
            .filter(|path| wanted.contains('.') || !is_hidden(path.as_str()))
            .filter_map(|path| Some((distance(&wanted, &path.to_lowercase())?, path)))
            .collect();
        found.sort_unstable_by_key(|(distance, path)| (*distance, path.len(), *path));
        found.into_iter().take(most).map(|(_, path)| path.clone()).collect()
    }

    fn paths(&self) -> Arc<Vec<String>> {
        let (listing, changed) = &*self.listing;
        let mut state = locked(listing);
        if !state.is_being_made && state.listed_at.is_none_or(|at| at.elapsed() > FRESH) {
            state.is_being_made = true;
            let (dir, shared) = (self.dir.clone(), Arc::clone(&self.listing));
            std::thread::spawn(move || {
                let paths = althing_workspace::list_tree(&dir, MAX_LISTED);
                let mut state = locked(&shared.0);
                *state =
                    Listing { paths: Arc::new(paths), listed_at: Some(Instant::now()), is_being_made: false };
                shared.1.notify_all();
            });
        }
        let waited = changed.wait_timeout_while(state, PATIENCE, |state| state.is_being_made);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&state.paths)
    }
}

fn is_hidden(path: &str) -> bool {
    path.split('/').any(|name| name.starts_with('.'))
}

/// How far a path is from the typed text; `None` if its letters do not occur in the path in this order. A name that
/// starts with the text is nearest, then a name that contains it, then a path that contains it, then a path that
/// contains its letters with gaps.
fn distance(wanted: &str, path: &str) -> Option<u32> {
    let name_at = path.trim_end_matches('/').rfind('/').map_or(0, |at| at + 1);
    let name = path.get(name_at..).unwrap_or_default();
    if let Some(at) = name.find(wanted) {
        return Some(u32::try_from(at).unwrap_or(u32::MAX).min(999));
    }
    if path.contains(wanted) {
        return Some(1000);
    }
    let mut letters = wanted.chars().peekable();
    let mut skipped = 0_u32;
    let mut has_begun = false;
    for letter in path.chars() {
        match letters.peek() {
            None => break,
            Some(next) if *next == letter => {
                letters.next();
                has_begun = true;
            }
            Some(_) if has_begun => skipped += 1,
            Some(_) => {}
        }
    }
    letters.peek().is_none().then_some(2000 + skipped)
}

#[cfg(test)]
mod tests {
    use super::PathSearch;

    #[test]
    fn names_are_nearer_than_paths_and_paths_nearer_than_scattered_letters() {
        let dir = tempfile::tempdir().unwrap();
        for name in [
            "docs/guide/start.md",
            "src/start.rs",
            "starts/other.rs",
            "src/some/table/ratio.txt",
            "x.md",
            ".hidden.md",
        ] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let search = PathSearch::new(dir.path().to_owned());
        let found = althing_testkit::wait::until_some(althing_testkit::wait::PATIENCE, || {
            Some(search.find("START", 10)).filter(|found| !found.is_empty())
        });
        assert_eq!(
            found,
            ["starts/", "src/start.rs", "docs/guide/start.md", "starts/other.rs", "src/some/table/ratio.txt"]
        );
        assert!(search.find("zzz", 10).is_empty());
        assert!(search.find("hid", 10).is_empty());
        assert_eq!(search.find(".hid", 10), [".hidden.md"]);
        assert_eq!(search.find("dgst", 10), ["docs/guide/start.md"]);
    }
}
