//! Finds the files that the user's shells and desktop run when they start, because a startup file in the home directory
//! runs them. The startup files are read, not run; a file whose path only a running shell knows is not found.

use super::canonical;
use super::command::PREFIXES;
use super::config::{UserConfig, expanded};
use super::directories::{commands, is_interpreter, is_shell, without_home};
use super::places::places;
use crate::repositories::try_read_file;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const STARTUP_FILES: [&str; 28] = [
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_aliases",
    ".bash_functions",
    ".bash_logout",
    ".bash_completion",
    ".profile",
    ".zshenv",
    ".zshrc",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".shrc",
    ".aliases",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
    ".xinitrc",
    ".xserverrc",
    ".gnomerc",
    ".envrc",
    ".config/fish/config.fish",
    ".config/openbox/autostart",
    ".config/bspwm/bspwmrc",
    ".vnc/xstartup",
];
/// A larger file is not read: it is no script that people write.
const MAX_BYTES: u64 = 256 << 10;
const MAX_TEXT: usize = 1 << 20;
/// A file that a startup file runs can run another one, and so on up to this level.
const MAX_LEVEL: usize = 3;

/// The existing files inside the `writable` directories that the user's startup files run, and the symlinks on the way
/// to them.
pub fn startup_code(writable: &[PathBuf]) -> Vec<PathBuf> {
    UserConfig::home().map(|home| startup_code_of(&home, writable)).unwrap_or_default()
}

fn startup_code_of(home: &Path, writable: &[PathBuf]) -> Vec<PathBuf> {
    let roots = canonical(writable);
    if roots.is_empty() {
        return Vec::new();
    }
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut files: Vec<(PathBuf, usize)> = STARTUP_FILES.iter().map(|name| (home.join(name), 0)).collect();
    while let Some((file, level)) = files.pop() {
        if !seen.insert((file.clone(), level)) {
            continue;
        }
        if level > 0 {
            let is_inside = |path: &PathBuf| roots.iter().any(|root| path != root && path.starts_with(root));
            found.extend(places(Path::new("/"), &file).into_iter().filter(is_inside));
        }
        let text = try_read_file(&file, MAX_BYTES).ok().flatten().filter(|_| level < MAX_LEVEL);
        let run = text.map(|text| run_by(&text, home)).unwrap_or_default();
        files.extend(run.into_iter().filter(|path| path.is_file()).map(|path| (path, level + 1)));
    }
    found.into_iter().collect()
}

/// The paths of what a script runs: programs, and arguments of `source`, shells and interpreters.
fn run_by(script: &[u8], home: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for command in commands(&with_values(script), 0) {
        let is_prefix = |word: &Vec<u8>| {
            word.contains(&b'=') || word == b"eval" || PREFIXES.iter().any(|name| name.as_bytes() == word)
        };
        let mut words = command.iter().skip_while(|word| is_prefix(word));
        let Some(program) = words.next() else { continue };
        let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let arguments = words.filter(|_| is_shell(name) || is_interpreter(name));
        let paths = [program].into_iter().chain(arguments).filter(|word| word.contains(&b'/'));
        found.extend(paths.map(|word| match without_home(word) {
            Some(below) => home.join(below),
            None => home.join(expanded(word, Some(home))),
        }));
    }
    found
}

/// The script without comments and quotes, with the values of variables that it sets to paths.
fn with_values(script: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(script);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let mut text = lines.join("\n").replace(['\\', '\'', '"'], "");
    let mut values: Vec<(String, String)> = Vec::new();
    for word in text.split([' ', '\t', '\n', ';', '&']) {
        let Some((name, value)) = word.split_once('=') else { continue };
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_path = ["/", "~/", "$HOME", "${HOME}"].iter().any(|start| value.starts_with(start));
        if is_name && is_path && name != "HOME" && value.len() < 200 && values.len() < 100 {
            values.push((name.to_owned(), value.to_owned()));
        }
    }
    for (name, value) in values {
        // A value that names its own variable would make the text longer each time.
        if !value.contains(&name) && text.len() < MAX_TEXT {
            text = text.replace(&format!("${name}/"), &format!("{value}/"));
            text = text.replace(&format!("${{{name}}}/"), &format!("{value}/"));
        }
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_startup_files_run_is_found_and_what_they_only_name_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        let put = |path: &str, text: &str| {
            std::fs::create_dir_all(home.join(path).parent().unwrap()).unwrap();
            std::fs::write(home.join(path), text).unwrap();
        };
        let bashrc = "# . ~/comment\nalias n='vim ~/notes.txt'\nexport TOOLS=\"$HOME/my tools\" T=$HOME/t\n\
            [ -f ~/dotfiles/a.sh ] && . ~/dotfiles/a.sh\nif [ -s \"$HOME/b\" ]; then source \"${HOME}/b\"; fi\n\
            \\. \"$T/c\" > /dev/null\neval \"$(\"$HOME/conda/bin/conda\" shell.bash hook)\"\nbash ABOVE/d &\n\
            cat ~/data >> ~/log\n~/run/e --x=~/data\n. ~/missing\n. ~/link\n";
        put(".bashrc", &bashrc.replace("ABOVE", &home.display().to_string()));
        put(".config/fish/config.fish", "source ~/f.fish; . .relative/g\n");
        put("dotfiles/a.sh", ". ~/second\n");
        put("second", ". ~/third\n");
        put("third", ". ~/fourth\n. ~/third\n");
        for name in ["fourth", "b", "t/c", "conda/bin/conda", "d", "data", "log", "run/e", "f.fish", "target"]
        {
            put(name, "");
        }
        for name in ["comment", "notes.txt", ".relative/g", "other"] {
            put(name, "");
        }
        std::os::unix::fs::symlink("target", home.join("link")).unwrap();
        let found = startup_code_of(&home, std::slice::from_ref(&home));
        let names: Vec<String> =
            found.iter().map(|path| path.strip_prefix(&home).unwrap().display().to_string()).collect();
        let expected = [
            ".relative/g",
            "b",
            "conda/bin/conda",
            "d",
            "dotfiles/a.sh",
            "f.fish",
            "link",
            "run/e",
            "second",
            "t/c",
            "target",
            "third",
        ];
        assert_eq!(names, expected);
        assert_eq!(startup_code_of(&home, &[home.join("dotfiles")]), [home.join("dotfiles/a.sh")]);
        assert!(startup_code_of(&home, &[]).is_empty());
    }
}
