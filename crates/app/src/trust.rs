//! Trust in what was found rather than named. A config is remembered by path and content, so a changed file must be
//! trusted again. A session or plan is remembered by its directory when this user creates it, or accepts it with
//! `--trust`. Others are refused: a session or plan that came with somebody else's files could start anything.

use crate::context::AppContext;
use crate::environment::Environment;
use crate::failure::Failure;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// When the list of this user's sessions and plans has this many lines, deleted directories are removed from it.
const MAX_LINES: usize = 1000;

/// The path and content by which trust in a found config is remembered.
pub struct Trust<'a> {
    /// The config's canonical path.
    pub path: &'a Path,
    /// SHA-256 of the config's text.
    pub digest: &'a str,
}

impl Trust<'_> {
    fn line(&self) -> String {
        format!("{}  {}", self.digest, self.path.display())
    }

    /// Whether the user has trusted this path with this content.
    pub fn is_given(&self, environment: &Environment) -> bool {
        trusted_file(environment)
            .is_some_and(|store| read_remembered(&store).lines().any(|line| line == self.line()))
    }

    /// Remembers that the user trusts this config.
    pub fn give(&self, environment: &Environment) -> Result<(), Failure> {
        if self.is_given(environment) {
            return Ok(());
        }
        let store = trusted_file(environment).ok_or_else(|| {
            Failure::usage("the trust cannot be remembered, because there is no home directory")
                .hint("set HOME")
        })?;
        let failed = |error| Failure::usage(format!("{} cannot be written: {error}", store.display()));
        if let Some(dir) = store.parent() {
            std::fs::create_dir_all(dir).map_err(failed)?;
        }
        // The entry is appended, so that no earlier entry can be lost.
        let opened = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&store);
        opened.and_then(|mut file| writeln!(file, "{}", self.line())).map_err(failed)
    }
}

fn trusted_file(environment: &Environment) -> Option<PathBuf> {
    Some(environment.user_state_dir()?.join("trusted"))
}

/// Remembers that this user made or accepted the session or plan in this directory. If remembering fails, the user
/// needs `--trust` to use that session or plan again, unless the user names the state directory.
pub fn remember_own(dir: &Path, environment: &Environment) {
    let (Some(file), Ok(dir)) = (own_dirs_file(environment), dir.canonicalize()) else { return };
    let known = read_remembered(&file);
    let noted = if known.lines().count() < MAX_LINES {
        let made = file.parent().map_or(Ok(()), std::fs::create_dir_all);
        let open = || std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&file);
        let file = made.and_then(|()| open());
        file.and_then(|mut file| writeln!(file, "{}", dir.display()))
    } else {
        let shown = dir.display().to_string();
        let still_there = known.lines().filter(|line| Path::new(line).exists());
        let lines: Vec<&str> = still_there.chain([shown.as_str(), ""]).collect();
        std::fs::write(&file, lines.join("\n"))
    };
    // Not an error: the user is only asked for `--trust` later.
    if let Err(error) = noted {
        tracing::warn!(path = %file.display(), %error, "trust cannot be remembered");
    }
}

/// Refuses a plan that was found in the working directory and that this user neither made nor accepted earlier, unless
/// `--trust` is given. Callers skip this check for a plan that the user named by its path.
pub fn require_own_plan(dir: &Path, app: &AppContext) -> Result<(), Failure> {
    if is_own(dir, app) {
        return Ok(());
    }
    let message = format!(
        "the plan in {} was found here and not made by you: agents would execute it.\n\
         Nothing was started or sent.",
        dir.display()
    );
    Err(Failure::usage(message).hint("read its plan.md, then accept it with --trust"))
}

/// Refuses a session that was found in the working directory and that this user neither started nor accepted earlier,
/// unless `--trust` is given.
pub fn require_own_session(dir: &Path, app: &AppContext) -> Result<(), Failure> {
    if is_own(dir, app) {
        return Ok(());
    }
    let shown = dir.canonicalize().unwrap_or_else(|_| dir.to_owned()).display().to_string();
    let message = format!(
        "the session in {shown} was found here and not started by you: it could start programs and write files.\n\
         Nothing was started or sent."
    );
    Err(Failure::usage(message).hint("look at it with `althing sessions show`, then accept it with --trust"))
}

/// Whether a session's or plan's directory is trusted: this user created it or accepted it earlier, the user named the
/// state directory, or `--trust` is given now.
fn is_own(dir: &Path, app: &AppContext) -> bool {
    if app.environment.state_dir_is_named(app.settings.state_dir.as_deref()) {
        return true;
    }
    let known = own_dirs_file(&app.environment).map(|file| read_remembered(&file));
    let shown = dir.canonicalize().unwrap_or_else(|_| dir.to_owned()).display().to_string();
    if known.unwrap_or_default().lines().any(|line| line == shown) {
        return true;
    }
    if app.settings.trust {
        remember_own(dir, &app.environment);
    }
    app.settings.trust
}

/// The content of a file of remembered trust; empty if it cannot be read, so that trust is asked for again.
fn read_remembered(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| {
        if error.kind() != std::io::ErrorKind::NotFound {
            tracing::warn!(path = %file.display(), %error, "remembered trust cannot be read");
        }
        String::new()
    })
}

fn own_dirs_file(environment: &Environment) -> Option<PathBuf> {
    Some(environment.user_state_dir()?.join("begun"))
}
