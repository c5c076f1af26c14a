//! Lets an agent see the kept work of others, read-only, each agent under its anonymous name.
//!
//! The files are those that were kept, under second names: nothing is copied, and nobody writes to them any more. A view is
//! prepared aside and put in place by one rename.

use super::copy::{Copier, close, fill};
use super::keep::{real_label, walk};
use super::{UNFINISHED, Workspace, make};
use crate::confine::{ConfinedDir, Kind};
use althing_disk::DiskError;
use althing_protocol::AnswerLabel;
use rustix::fs::RenameFlags;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};

impl Workspace {
    /// Shows what was kept with these answers, in place of what was shown before. Of several answers of one agent the
    /// newest is shown; an answer with which nothing was kept shows nothing.
    pub fn show(&self, labels: &[AnswerLabel]) -> Result<(), DiskError> {
        let dir = self.view_dir();
        make(&dir)?;
        self.show_in(labels).map_err(DiskError::io("show others' work in", &dir))
    }

    fn show_in(&self, labels: &[AnswerLabel]) -> io::Result<()> {
        let views = ConfinedDir::open(&self.run_dir.join("views"))?;
        let own = self.view_dir();
        let own = own.file_name().unwrap_or_default();
        let view = views.descend(own)?;
        let snapshots = ConfinedDir::open(&self.snapshots())?;
        let record = shown_name(own);
        let was = read_shown(&views, &record);
        let mut wanted: BTreeMap<String, AnswerLabel> = BTreeMap::new();
        for label in labels {
            let Some(real) = real_label(&snapshots, *label) else { continue };
            let shown = wanted.entry(format!("agent{}", label.agent)).or_insert(real);
            *shown = (*shown).max(real);
        }
        // What is not certain is not recorded: then it is made anew next time.
        views.replace(&record, b"{}", Some(0o600))?;
        for name in view.names()? {
            if name.to_str().is_none_or(|name| !wanted.contains_key(name)) {
                view.remove_tree(&name)?;
            }
        }
        for (name, label) in &wanted {
            let there = view.look(OsStr::new(name))?.is_some();
            if !(there && was.get(name) == Some(label)) {
                let source = snapshots.descend(OsStr::new(&label.to_string()))?;
                self.place(&views, &view, OsStr::new(name), &source)?;
            }
        }
        views.replace(&record, &serde_json::to_vec(&wanted)?, Some(0o600))
    }

    fn place(
        &self,
        views: &ConfinedDir,
        view: &ConfinedDir,
        name: &OsStr,
        source: &ConfinedDir,
    ) -> io::Result<()> {
        let mut temporary = OsString::from(UNFINISHED);
        temporary.push(self.view_dir().file_name().unwrap_or_default());
        views.remove_tree(&temporary)?;
        let placed = self.place_as(views, view, &temporary, name, source);
        if placed.is_err() {
            let _ = views.remove_tree(&temporary);
        }
        placed
    }

    /// Prepares a view under a temporary name and puts it in place when it is whole.
    fn place_as(
        &self,
        views: &ConfinedDir,
        view: &ConfinedDir,
        temporary: &OsStr,
        name: &OsStr,
        source: &ConfinedDir,
    ) -> io::Result<()> {
        let target = views.make_dir(temporary, 0o700)?;
        let leaves = walk(source, self.limits)?;
        // For files that cannot have a further name: they have too many, or the file system knows none.
        let copier = Copier::within(self.limits);
        fill(source, &target, &leaves, &|leaf, name, from, to, buffer| match leaf.found.kind {
            Kind::Link => to.make_link(&from.link_text(name)?, name),
            Kind::File => {
                from.hard_link(name, to, name).or_else(|_| copier.copy(from, name, to, buffer).map(drop))
            }
            Kind::Dir | Kind::Special => Ok(()),
        })?;
        close(&target, &leaves)?;
        if view.look(name)?.is_some() {
            // A directory can only be moved by who may write to it.
            view.descend(name)?.set_mode(0o700)?;
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
    // A file system that cannot exchange: a reader may find nothing there for a moment.
    b.remove_tree(to)?;
    Ok(rustix::fs::renameat(a, from, b, to)?)
}
