//! The file of `--output-file`. It is checked before a run starts, so that no run is paid for whose answer cannot be
//! written. Its links are resolved before the run starts, so that no agent of the run can redirect the answer to
//! another file.

use crate::args::Options;
use althing_app::base_dirs::{BaseDirs, refuse_replaced};
use althing_app::{AppContext, Failure};
use rustix::fs::OFlags;
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

#[derive(Clone)]
pub struct OutputFile {
    /// The path with links resolved. A path that leads to something other than a file or a directory, such as a pipe,
    /// stays as named.
    pub path: PathBuf,
    /// Whether `write` fails if the path has become a link after it was resolved.
    no_links: bool,
}

impl OutputFile {
    fn of(options: &Options, app: &AppContext) -> std::result::Result<Option<Self>, Failure> {
        let Some(file) = &options.output_file else { return Ok(None) };
        let from = BaseDirs::of(&app.environment);
        let real = from.real_path(&format!("--output-file {}", file.display()), file)?;
        let named = from.path(file);
        // `/dev/stdout` may be a link to a pipe, which has no path of its own, so such a path is used as named.
        let no_links = named.metadata().is_err() || named.is_file() || named.is_dir();
        Ok(Some(Self { path: if no_links { real } else { named }, no_links }))
    }

    fn options(&self) -> OpenOptions {
        let mut options = OpenOptions::new();
        if self.no_links {
            options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        }
        options
    }

    pub fn write(&self, answer: &str) -> Result<()> {
        if self.no_links {
            refuse_replaced(&self.path)?;
        }
        let mut file = self.options().write(true).create(true).truncate(true).open(&self.path)?;
        file.write_all(answer.as_bytes())
    }

    /// Fails if the file cannot be written. A file that the check created is removed again.
    fn check(&self) -> Result<()> {
        let file: &Path = &self.path;
        match file.metadata() {
            Ok(found) if found.is_dir() => Err(Error::from(ErrorKind::IsADirectory)),
            Ok(found) if found.is_file() => self.options().append(true).open(file).map(drop),
            // A pipe or a device is opened only once, to write the answer.
            Ok(_) => Ok(()),
            Err(_) => {
                self.options().append(true).create(true).open(file)?;
                std::fs::remove_file(file)
            }
        }
    }
}

/// The file of `--output-file`, if the option is given. Fails if the answer could not be written to it. An existing
/// file is not changed.
pub fn resolve(options: &Options, app: &AppContext) -> std::result::Result<Option<OutputFile>, Failure> {
    let (Some(file), Some(named)) = (OutputFile::of(options, app)?, &options.output_file) else {
        return Ok(None);
    };
    file.check().map_err(|error| {
        Failure::usage(format!("--output-file {} cannot be written: {error}", named.display()))
            .hint("nothing was started; name a file that can be written")
    })?;
    Ok(Some(file))
}
