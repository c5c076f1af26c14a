//! Trust in configs, sessions and plans that were found rather than named: those of a stranger could start anything.
//! A config is remembered by path and content; a session or plan by its directory and a random token if this user
//! made it, or by its directory and contents if this user accepted it. An untrusted config is refused in `team.rs`.

use crate::context::AppContext;
use crate::environment::{Environment, create_private_dir};
use crate::failure::Failure;
use crate::plans::plan_failure;
use crate::session_token;
use crate::trust_question::{self, TrustAnswer, TrustQuestion};
use althing_workspace::StoredPlan;
use contents::contents_digest;
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

mod contents;

/// Once the list of own and accepted sessions and plans has this many lines, the lines of directories that no longer
/// exist are removed from it.
const MAX_LINES: usize = 1000;

/// The start of a line for a session or plan of this user; the digest of its token and its path follow. (Version
/// 0.1.0 wrote only the path.)
const OWN: &str = "own ";

/// The start of a line for an accepted session or plan; its digest and path follow.
const ACCEPTED: &str = "accepted ";

/// What this process has checked, and what the user has accepted.
#[derive(Default)]
pub struct Acceptance(Mutex<Accepted>);

#[derive(Default)]
struct Accepted {
    configs: Vec<(PathBuf, String)>,
    lines: Vec<String>,
    /// Real paths of the sessions that this command may use.
    sessions: Vec<PathBuf>,
    /// What a person accepted for this process: a config's digest and path, or a session's or plan's real path.
    once: Vec<String>,
}

impl Acceptance {
    fn change(&self, change: impl FnOnce(&mut Accepted)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// `None` if nobody can be asked. `key` identifies what was found. `remember` is called if the person accepts it for
/// later commands, too.
fn ask(
    question: &TrustQuestion,
    key: &str,
    app: &AppContext,
    remember: impl FnOnce(&mut Accepted),
) -> Option<Result<(), Failure>> {
    let ask_person = app.ask_trust.as_ref()?;
    let mut is_accepted = false;
    app.acceptance.change(|all| is_accepted = all.once.iter().any(|known| known == key));
    if is_accepted {
        return Some(Ok(()));
    }
    let answer = ask_person(question);
    tracing::info!(what = %question.what, ?answer, "trust asked");
    match answer {
        TrustAnswer::No => return Some(Err(trust_question::declined(question))),
        TrustAnswer::Once => {}
        TrustAnswer::Always => app.acceptance.change(remember),
    }
    app.acceptance.change(|all| all.once.push(key.to_owned()));
    Some(Ok(()))
}

/// Stores what the user accepted in this command. Called once the command has started its session or succeeded: a
/// command that fails before that accepts nothing for later commands.
pub fn remember_accepted(app: &AppContext) {
    let mut accepted = Accepted::default();
    app.acceptance.change(|all| {
        accepted.configs = std::mem::take(&mut all.configs);
        accepted.lines = std::mem::take(&mut all.lines);
    });
    for (path, digest) in &accepted.configs {
        // Failing to remember trust is not an error: the user is only asked again.
        if let Err(failure) = (Trust { path, digest }).give(&app.environment) {
            app.notify(&failure.message);
        }
    }
    for line in &accepted.lines {
        remember(line, &app.environment);
    }
}

/// Identifies a found config.
pub struct Trust<'a> {
    /// The config's canonical path.
    pub path: &'a Path,
    /// SHA-256 of the config's text.
    pub digest: &'a str,
}

impl Trust<'_> {
    fn line(&self) -> String {
        format!("{}  {}", self.digest, one_line(self.path))
    }

    /// Whether the user has trusted this path with this content.
    pub fn is_given(&self, environment: &Environment) -> bool {
        trusted_file(environment)
            .is_some_and(|store| read_remembered(&store).lines().any(|line| line == self.line()))
    }

    /// Notes that the user accepted this config, so that [`remember_accepted`] stores it for later commands.
    pub fn accept(&self, app: &AppContext) {
        app.acceptance.change(|all| all.configs.push((self.path.to_owned(), self.digest.to_owned())));
    }

    /// Asks a person whether this config may be used; None if nobody can be asked.
    pub fn ask(&self, would: &[String], app: &AppContext) -> Option<Result<(), Failure>> {
        let what = format!("{} was found in this directory, not named by you", self.path.display());
        let question = TrustQuestion { what, would: would.to_vec() };
        let accepted = (self.path.to_owned(), self.digest.to_owned());
        ask(&question, &self.line(), app, |all| all.configs.push(accepted))
    }

    /// Remembers the trust for later commands.
    pub fn give(&self, environment: &Environment) -> Result<(), Failure> {
        if self.is_given(environment) {
            return Ok(());
        }
        let store = trusted_file(environment).ok_or_else(|| {
            Failure::usage("the trust cannot be remembered, because there is no home directory")
                .hint("set HOME")
        })?;
        let failed = |error| Failure::usage(format!("{} cannot be written: {error}", store.display()));
        own_to_change(&store).map_err(failed)?;
        // The line is appended, so that no earlier entry can be lost.
        let opened = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&store);
        opened.and_then(|mut file| writeln!(file, "{}", self.line())).map_err(failed)
    }
}

fn trusted_file(environment: &Environment) -> Option<PathBuf> {
    Some(environment.user_state_dir()?.join("trusted"))
}

/// Remembers that this user made the session or plan in this directory. If that fails, the user has to accept it
/// later.
pub fn remember_own(dir: &Path, environment: &Environment) {
    let Ok(dir) = dir.canonicalize() else { return };
    match session_token::write(&dir) {
        Ok(token) => remember(&own_line(&token, &dir), environment),
        Err(error) => {
            tracing::warn!(path = %dir.display(), %error, "no token can be written, so trust is not remembered");
        }
    }
}

fn own_line(token: &[u8], real: &Path) -> String {
    format!("{OWN}{}  {}", althing_text::hex(&Sha256::digest(token)), one_line(real))
}

fn path_of(line: &str) -> &str {
    let rest = line.strip_prefix(OWN).or_else(|| line.strip_prefix(ACCEPTED));
    rest.and_then(|rest| rest.split_once("  ")).map_or(line, |(_, path)| path)
}

/// The real path by which trust in a session is remembered. To be called before the session is deleted.
pub fn remembered_path(dir: &Path) -> PathBuf {
    dir.canonicalize().unwrap_or_else(|_| dir.to_owned())
}

/// Forgets trust in a deleted session: what appears in its place is not this user's.
pub fn forget(real: &Path, environment: &Environment) {
    let Some(file) = own_dirs_file(environment) else { return };
    let shown = one_line(real);
    let forgotten = locked(&file, || {
        let known = read_remembered(&file);
        if !known.lines().any(|line| path_of(line) == shown) {
            return Ok(());
        }
        rewrite(&file, known.lines().filter(|line| path_of(line) != shown))
    });
    if let Err(error) = forgotten {
        tracing::warn!(path = %file.display(), %error, "the record of trust in a deleted session could not be removed");
    }
}

/// A lock is held, so that no other process's line is lost.
fn locked(file: &Path, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    own_to_change(file)?;
    let name = file.with_extension("lock");
    let lock = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(name)?;
    lock.lock()?;
    change()
}

fn rewrite<'a>(file: &Path, lines: impl Iterator<Item = &'a str>) -> io::Result<()> {
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let new = file.with_extension("new");
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| file.write_all(text.as_bytes()))?;
    std::fs::rename(&new, file)
}

/// Stores what the user accepted in this command, and the new contents of an accepted session that this command
/// checked and changed; for a session that the user accepted only once, they are accepted in this process. Called after
/// the command has succeeded, or has closed the session.
pub fn remember_again(dir: &Path, app: &AppContext) {
    remember_accepted(app);
    let Ok(real) = dir.canonicalize() else { return };
    let end = format!("  {}", one_line(&real));
    let (mut is_checked, mut is_accepted_once) = (false, false);
    app.acceptance.change(|all| {
        is_checked = all.sessions.contains(&real);
        is_accepted_once = all.once.iter().any(|line| line.ends_with(&end));
    });
    if !is_checked {
        return;
    }
    if is_accepted_once && let Some(line) = accepted_line(dir) {
        app.acceptance.change(|all| all.once.push(line));
    }
    let known = own_dirs_file(&app.environment).map(|file| read_remembered(&file)).unwrap_or_default();
    let mut accepted = known.lines().filter_map(|line| line.strip_prefix(ACCEPTED));
    if accepted.any(|line| line.ends_with(&end))
        && !is_remembered(dir, app)
        && let Some(line) = accepted_line(dir)
    {
        remember(&line, &app.environment);
    }
}

/// `None` if the session or plan is too large or cannot be read.
fn accepted_line(dir: &Path) -> Option<String> {
    let real = dir.canonicalize().ok()?;
    match contents_digest(&real) {
        Ok(digest) => Some(format!("{ACCEPTED}{digest}  {}", one_line(&real))),
        Err(error) => {
            tracing::warn!(path = %dir.display(), %error, "the contents are too large or cannot be read, so the acceptance is not remembered");
            None
        }
    }
}

fn remember(shown: &str, environment: &Environment) {
    let Some(file) = own_dirs_file(environment) else { return };
    let noted = locked(&file, || {
        let known = read_remembered(&file);
        if known.lines().count() < MAX_LINES {
            let open = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&file);
            return open.and_then(|mut file| writeln!(file, "{shown}"));
        }
        rewrite(&file, known.lines().filter(|line| Path::new(path_of(line)).exists()).chain([shown]))
    });
    // Failing to remember trust is not an error: the user only has to accept again.
    if let Err(error) = noted {
        tracing::warn!(path = %file.display(), %error, "trust cannot be remembered");
    }
}

/// Refuses a found plan that this user neither made nor accepted, unless `--trust` is given or a person accepts it.
/// Afterwards `plan` is what the person was shown. A plan that the user named by its path needs no check.
pub fn require_own_plan(plan: &mut StoredPlan, app: &AppContext) -> Result<(), Failure> {
    let dir = plan.dir().to_owned();
    if is_remembered(&dir, app) {
        return Ok(());
    }
    refuse_links(&dir)?;
    if is_accepted_now(&dir, app) {
        return Ok(());
    }
    let question = || {
        plan.read_again().map_err(|error| plan_failure(&error))?;
        Ok(trust_question::plan_question(plan))
    };
    if let Some(answer) = ask_about_dir(&dir, question, app) {
        return answer;
    }
    let message = format!(
        "the plan in {} was found here and not made by you, or a file of it was replaced: agents would execute it.\n\
         Nothing was started or sent.",
        dir.display()
    );
    Err(Failure::usage(message).hint("read its plan.json, then accept it with --trust"))
}

/// Refuses a found session that this user neither started nor accepted, unless `--trust` is given or a person accepts
/// it. Only for commands about this session: elsewhere, `--trust` may be meant for a config.
pub fn require_own_session(dir: &Path, app: &AppContext) -> Result<(), Failure> {
    if !is_remembered(dir, app) {
        refuse_links(dir)?;
    }
    if !is_accepted_now(dir, app) && !is_remembered(dir, app) {
        let shown = remembered_path(dir).display().to_string();
        let question = || Ok(trust_question::session_question(dir, &shown, app));
        ask_about_dir(dir, question, app).unwrap_or_else(|| require_known_session(dir, app))?;
    }
    if let Ok(real) = dir.canonicalize() {
        app.acceptance.change(|all| all.sessions.push(real));
    }
    Ok(())
}

/// `None` if nobody can be asked. The question is built after the contents were digested, and they must be the same after
/// the answer, so that a person accepts only what was shown.
fn ask_about_dir(
    dir: &Path,
    question: impl FnOnce() -> Result<TrustQuestion, Failure>,
    app: &AppContext,
) -> Option<Result<(), Failure>> {
    app.ask_trust.as_ref()?;
    let accepted = accepted_line(dir);
    let question = match question() {
        Ok(question) => question,
        Err(failure) => return Some(Err(failure)),
    };
    let key = accepted.clone().unwrap_or_else(|| one_line(&remembered_path(dir)));
    let answer = ask(&question, &key, app, |all| all.lines.extend(accepted.clone()))?;
    Some(answer.and_then(|()| {
        if accepted_line(dir) == accepted { Ok(()) } else { Err(trust_question::changed(dir)) }
    }))
}

/// Like [`require_own_session`], but neither `--trust` nor a person can accept the session.
pub fn require_known_session(dir: &Path, app: &AppContext) -> Result<(), Failure> {
    if is_remembered(dir, app) {
        return Ok(());
    }
    refuse_links(dir)?;
    let shown = dir.canonicalize().unwrap_or_else(|_| dir.to_owned()).display().to_string();
    let message = format!(
        "the session in {shown} was found here and not started by you, or its log was replaced, or it has changed \
         since you accepted it: it could start programs and write files.\nNothing was started or sent."
    );
    let id = dir.file_name().unwrap_or_default().to_string_lossy();
    let hint = format!(
        "look at it with `althing sessions show {id}`, then accept it with --trust: `althing resume {id} --trust` or \
         `althing undo {id} --trust`"
    );
    Err(Failure::usage(message).hint(hint))
}

/// Whether this user made the session or plan, or accepted it earlier with the same contents, or named the state
/// directory.
fn is_remembered(dir: &Path, app: &AppContext) -> bool {
    if is_own_session(dir, app) {
        return true;
    }
    let known = own_dirs_file(&app.environment).map(|file| read_remembered(&file)).unwrap_or_default();
    let shown = one_line(&remembered_path(dir));
    let is_listed = known.lines().any(|line| line.starts_with(ACCEPTED) && line.ends_with(&shown));
    is_listed && accepted_line(dir).is_some_and(|accepted| known.lines().any(|line| line == accepted))
}

/// Whether this user started a session, or named the state directory in which it is. A session that this user only
/// accepted is not this user's own.
pub fn is_own_session(dir: &Path, app: &AppContext) -> bool {
    app.environment.state_dir_is_named(app.settings.state_dir.as_deref()) || is_own(dir, &app.environment)
}

/// Whether this user made the session or plan.
pub(crate) fn is_own(dir: &Path, environment: &Environment) -> bool {
    let known = own_dirs_file(environment).map(|file| read_remembered(&file)).unwrap_or_default();
    let real = remembered_path(dir);
    let shown = one_line(&real);
    known.lines().any(|line| line == shown)
        || session_token::read(&real).is_ok_and(|token| {
            let own = own_line(&token, &real);
            known.lines().any(|line| line == own) && !is_replaced(&real)
        })
}

/// The files that decide what is resumed or executed.
const DECIDING: [&str; 3] = ["events.jsonl", "plan.json", "progress.json"];

/// Whether another program has put its own file in the place of one of Althing's: the token is as private as every file
/// of Althing, but git, which overwrites ignored files, creates files that others may read (unless the umask forbids
/// it).
fn is_replaced(real: &Path) -> bool {
    let open_to_others = |name: &str| Some(real.join(name).symlink_metadata().ok()?.mode() & 0o077);
    let expected = open_to_others(session_token::TOKEN);
    DECIDING.iter().filter_map(|name| open_to_others(name)).any(|mode| Some(mode) != expected)
}

/// Whether the user gave `--trust`. If so, and if the command succeeds, the present contents are remembered as
/// accepted.
fn is_accepted_now(dir: &Path, app: &AppContext) -> bool {
    if app.settings.trust && !is_remembered(dir, app) {
        app.acceptance.change(|all| all.lines.extend(accepted_line(dir)));
    }
    app.settings.trust
}

/// A link in place of one of Althing's own files could change its target after the user has accepted the session or
/// plan.
fn refuse_links(dir: &Path) -> Result<(), Failure> {
    let Ok(real) = dir.canonicalize() else { return Ok(()) };
    let Err(error) = contents_digest(&real) else { return Ok(()) };
    let (problem, hint) = if error.kind() == io::ErrorKind::InvalidInput {
        let hint = "a session or plan with links in place of its own files is not used; ask for a copy without links";
        ("contains a link", hint)
    } else {
        (
            "could not be searched for links",
            "a session or plan that cannot be searched completely is not used",
        )
    };
    let message = format!(
        "{} was not made by you and {problem}: {error}.\nNothing was started or sent.",
        real.display()
    );
    Err(Failure::usage(message).hint(hint))
}

/// A path as one line. The name of a directory may contain line breaks, which would add lines, and bytes that are not
/// UTF-8, which must not make two names equal.
pub(crate) fn one_line(path: &Path) -> String {
    let mut line = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        line += &chunk.valid().replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r");
        line.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    line
}

const MAX_REMEMBERED_BYTES: u64 = 100_000_000;

/// What this user has remembered in a file. Returns an empty text if the file cannot be read or belongs to another
/// user, so that trust is asked for again.
pub(crate) fn read_remembered(file: &Path) -> String {
    match althing_disk::read_own(file, MAX_REMEMBERED_BYTES) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(path = %file.display(), %error, "remembered trust cannot be read");
            }
            String::new()
        }
    }
}

/// Creates the directory of a file with remembered trust. Fails if it or the file belongs to another user.
pub(crate) fn own_to_change(file: &Path) -> io::Result<()> {
    if let Some(dir) = file.parent() {
        althing_disk::refuse_foreign(dir)?;
        create_private_dir(dir)?;
    }
    althing_disk::refuse_foreign(file)
}

fn own_dirs_file(environment: &Environment) -> Option<PathBuf> {
    Some(environment.user_state_dir()?.join("begun"))
}

#[cfg(test)]
mod tests;
