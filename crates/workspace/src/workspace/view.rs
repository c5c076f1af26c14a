//! Shows an agent the snapshots of others, read-only, each under an anonymous name. The files of a view are hard
//! links to the snapshots, or copies where linking fails.

use super::copy::{Copier, fill_dir, make_dirs_read_only};
use super::snapshot::{real_label, walk};
use super::{TEMP_PREFIX, Workspace, create_private_dir};
use crate::confine::{ConfinedDir, FileKind};
use althing_disk::DiskError;
use althing_protocol::AnswerLabel;
use rustix::fs::RenameFlags;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};

impl Workspace {
    /// Shows the snapshots of these answers instead of those shown before. Of several answers of one agent, the
    /// newest is shown; an answer without a snapshot is skipped.
    pub fn show_snapshots(&self, labels: &[AnswerLabel]) -> Result<(), DiskError> {
        let dir = self.view_dir();
        create_private_dir(&dir)?;
        self.update_view(labels).map_err(DiskError::io("show other agents' snapshots in", &dir))
    }

    fn update_view(&self, labels: &[AnswerLabel]) -> io::Result<()> {
        let views = ConfinedDir::open(&self.run_dir.join("views"))?;
        let own = self.view_dir();
        let own = own.file_name().unwrap_or_default();
        let view = views.open_dir(own)?;
        let snapshots = ConfinedDir::open(&self.snapshots_dir())?;
        let record = shown_name(own);
        let previous = read_shown(&views, &record);
        let mut wanted: BTreeMap<String, AnswerLabel> = BTreeMap::new();
        for label in labels {
            let Some(real) = real_label(&snapshots, *label) else { continue };
            let shown = wanted.entry(format!("agent{}", label.agent)).or_insert(real);
            *shown = (*shown).max(real);
        }
        // The record is cleared during the change, so that an interrupted change is repeated next time.
        views.replace(&record, b"{}", Some(0o600))?;
        for name in view.names()? {
            if name.to_str().is_none_or(|name| !wanted.contains_key(name)) {
                view.remove_tree(&name)?;
            }
        }
        for (name, label) in &wanted {
            let there = view.stat(OsStr::new(name))?.is_some();
            if !(there && previous.get(name) == Some(label)) {
                let source = snapshots.open_dir(OsStr::new(&label.to_string()))?;
                self.install_view(&views, &view, OsStr::new(name), &source)?;
            }
        }
        views.replace(&record, &serde_json::to_vec(&wanted)?, Some(0o600))
    }

    fn install_view(
        &self,
        views: &ConfinedDir,
        view: &ConfinedDir,
        name: &OsStr,
        source: &ConfinedDir,
    ) -> io::Result<()> {
        let mut temporary = OsString::from(TEMP_PREFIX);
        temporary.push(self.view_dir().file_name().unwrap_or_default());
        views.remove_tree(&temporary)?;
        let installed = self.build_view(views, view, &temporary, name, source);
        if installed.is_err() {
            let _ = views.remove_tree(&temporary);
        }
        installed
    }

    fn build_view(
        &self,
        views: &ConfinedDir,
        view: &ConfinedDir,
        temporary: &OsStr,
        name: &OsStr,
        source: &ConfinedDir,
    ) -> io::Result<()> {
        let target = views.make_dir(temporary, 0o700)?;
        let nodes = walk(source, self.limits)?;
        // The copier is for files that cannot be hard-linked: too many links, or no support in the file system.
        let copier = Copier::with_limits(self.limits);
        fill_dir(source, &target, &nodes, &|node, name, from, to, buffer| match node.found.kind {
            FileKind::Link => to.symlink(&from.read_link(name)?, name),
            FileKind::File => {
                from.hard_link(name, to, name).or_else(|_| copier.copy(from, name, to, buffer).map(drop))
            }
            FileKind::Dir | FileKind::Special => Ok(()),
        })?;
        make_dirs_read_only(&target, &nodes)?;
        if view.stat(name)?.is_some() {
            // A directory must be writable to be moved.
            view.open_dir(name)?.set_mode(0o700)?;
            exchange(views, temporary, view, name)?;
            views.remove_tree(temporary)?;
        } else {
            rustix::fs::renameat(views, temporary, view, name)?;
        }
        target.set_mode(0o500)
    }
}

fn shown_name(own: &OsStr) -> OsString {
    let mut name = own.to_owned();
    name.push(".shown");
    name
}

fn read_shown(views: &ConfinedDir, record: &OsStr) -> BTreeMap<String, AnswerLabel> {
    let mut text = String::new();
    let read = views.open_file(record).and_then(|(mut file, _)| file.read_to_string(&mut text));
    read.ok().and_then(|_| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn exchange(a: &ConfinedDir, from: &OsStr, b: &ConfinedDir, to: &OsStr) -> io::Result<()> {
    if rustix::fs::renameat_with(a, from, b, to, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    // Without support for an atomic exchange, the directory is missing for an instant.
    b.remove_tree(to)?;
    Ok(rustix::fs::renameat(a, from, b, to)?)
}
