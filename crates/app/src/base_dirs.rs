//! Resolves paths as people write them: relative to the working directory, with `~`, or absolute. Somebody else may
//! have put symbolic links into the working directory, so a path in a config, workflow or option is resolved with
//! [`BaseDirs::real_path`], which refuses to leave that directory through a link.

use crate::environment::Environment;
use crate::failure::Failure;
use std::path::{Component, Path, PathBuf};

pub use althing_disk::refuse_replaced;

const MAX_LINKS: usize = 40;

/// The directories that relative paths and `~` are resolved against.
pub struct BaseDirs {
    /// The directory that relative paths are resolved against.
    pub cwd: PathBuf,
    /// The directory that `~` stands for.
    pub home: Option<PathBuf>,
}

impl BaseDirs {
    /// The directories of an environment.
    pub fn of(environment: &Environment) -> Self {
        Self { cwd: environment.cwd.clone(), home: environment.variable("HOME").map(PathBuf::from) }
    }

    /// The absolute path that a text means; links are not resolved.
    pub fn path(&self, text: &Path) -> PathBuf {
        match (text.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.clone(),
            (Ok(rest), Some(home)) => home.join(rest),
            _ => self.cwd.join(text),
        }
    }

    /// The path that a text means, with symbolic links resolved. Fails if the text names something in the working
    /// directory but leads elsewhere through a link. `what` begins the error message.
    pub fn real_path(&self, what: &str, text: &Path) -> Result<PathBuf, Failure> {
        match self.leaves_by_link(text) {
            None => Ok(real_path(&self.path(text))),
            Some(target) => {
                let target = target.display();
                let message = format!(
                    "{what} is a link to {target}; Althing does not follow links that it finds in the working directory"
                );
                Err(Failure::usage(message).hint(format!("name that path instead: {target}")))
            }
        }
    }

    /// The target of a path that is inside the working directory as text but leaves it through a symbolic link; None
    /// for any other path. For a relative path with `..`, the innermost parent directory that still contains the path
    /// as text takes the place of the working directory. An absolute path may leave a working directory that is or
    /// contains the home directory, because nobody else made that.
    pub fn leaves_by_link(&self, text: &Path) -> Option<PathBuf> {
        let (path, cwd) = (self.path(text), real_path(&self.cwd));
        let named = without_dots(&path);
        let is_relative = text.is_relative() && !text.starts_with("~");
        let real = real_path(&path);
        if !is_relative {
            let is_home = self.home.as_ref().is_some_and(|home| real_path(home).starts_with(&cwd));
            // Links elsewhere may give the working directory other names; the shell's `$PWD` can be such a name.
            let is_named_inside = || {
                let dirs = named.ancestors().chain(ancestors_after_dots(&path));
                dirs.skip(1).any(|dir| real_path(dir).starts_with(&cwd))
            };
            return (!is_home && !real.starts_with(&cwd) && is_named_inside()).then_some(real);
        }
        let base = self.cwd.ancestors().find(|dir| named.starts_with(dir))?;
        (!real.starts_with(real_path(base))).then_some(real)
    }
}

fn ancestors_after_dots(path: &Path) -> impl Iterator<Item = &Path> {
    let names = path.components().rev().take_while(|part| *part != Component::ParentDir).count();
    path.ancestors().take(names + 1)
}

fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Unlike `althing_disk::real_path`, also follows dangling links.
fn real_path(path: &Path) -> PathBuf {
    let mut real = althing_disk::real_path(path);
    for _ in 0..MAX_LINKS {
        let link = real.ancestors().find_map(|at| Some((at, at.parent()?.join(at.read_link().ok()?))));
        let Some((link, target)) = link else { break };
        let rest = real.strip_prefix(link).unwrap_or(Path::new(""));
        let target = if rest.as_os_str().is_empty() { target } else { target.join(rest) };
        real = althing_disk::real_path(&target);
    }
    without_dots(&real)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_path_in_the_working_directory_does_not_leave_it_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let cwd = base.join("repository/sub");
        for made in ["repository/sub/real", "victim", "home/docs"] {
            std::fs::create_dir_all(base.join(made)).unwrap();
        }
        symlink(base.join("victim"), cwd.join("out")).unwrap();
        symlink("../../victim", cwd.join("relative")).unwrap();
        symlink("../../victim/new", cwd.join("dangling")).unwrap();
        symlink("dangling", cwd.join("twice")).unwrap();
        symlink("real", cwd.join("inside")).unwrap();
        symlink("../victim", base.join("repository/next")).unwrap();
        symlink("../victim", base.join("home/link")).unwrap();
        let from = |cwd: &Path| BaseDirs { cwd: cwd.to_owned(), home: Some(base.join("home")) };
        let victim = base.join("victim");
        let new = victim.join("new");
        let here = |name: &str| cwd.join(name).display().to_string();
        for (text, target) in [
            ("out".to_owned(), &victim),
            ("./relative".to_owned(), &victim),
            ("real/../out/new".to_owned(), &new),
            ("out/../victim".to_owned(), &victim),
            ("dangling".to_owned(), &new),
            ("twice".to_owned(), &new),
            ("../next".to_owned(), &victim),
            (here("out"), &victim),
        ] {
            assert_eq!(from(&cwd).leaves_by_link(Path::new(&text)).as_ref(), Some(target), "{text}");
            let refused = from(&cwd).real_path("the path", Path::new(&text)).unwrap_err();
            assert!(refused.message.contains(&target.display().to_string()), "{}", refused.message);
        }
        let victims = victim.display().to_string();
        for (text, real) in [
            ("inside", cwd.join("real")),
            ("inside/new", cwd.join("real/new")),
            (".", cwd.clone()),
            ("new/deep", cwd.join("new/deep")),
            ("../../victim", victim.clone()),
            ("~/link", victim.clone()),
            (&victims, victim.clone()),
        ] {
            assert_eq!(from(&cwd).real_path("the path", Path::new(text)).unwrap(), real, "{text}");
        }
        // Nobody else made the home directory, so its links are followed.
        let home = base.join("home");
        let absolute = home.join("link");
        assert_eq!(from(&home).real_path("the path", &absolute).unwrap(), victim);
    }

    #[test]
    fn another_name_of_the_working_directory_does_not_permit_its_links() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for made in ["data/here/sub", "victim", "home"] {
            std::fs::create_dir_all(base.join(made)).unwrap();
        }
        let cwd = base.join("data/here");
        symlink("data", base.join("alias")).unwrap();
        symlink("data/here/sub", base.join("deep")).unwrap();
        symlink("../../victim/out.md", cwd.join("out.md")).unwrap();
        symlink("../../../victim", cwd.join("sub/link")).unwrap();
        let dirs = BaseDirs { cwd: cwd.clone(), home: Some(base.join("home")) };
        let target = Some(base.join("victim/out.md"));
        for text in ["alias/here/out.md", "alias/here/sub/../out.md", "deep/../out.md", "data/here/out.md"] {
            assert_eq!(dirs.leaves_by_link(&base.join(text)), target, "{text}");
        }
        assert_eq!(dirs.leaves_by_link(&base.join("deep/link")), Some(base.join("victim")));
        for text in
            ["alias/here/new.md", "alias/here/../../victim", "data/here/../../victim", "victim", "deep/new"]
        {
            assert_eq!(dirs.leaves_by_link(&base.join(text)), None, "{text}");
        }
    }
}
