//! The owner of a Docker container: the process that created it, distinguishable from other processes with the same
//! pid. Containers of owners that may still exist are left alone.

use super::DockerError;
use std::fs::{read_link, read_to_string};

pub(super) const LABEL: &str = "althing.owner";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    host: String,
    boot: String,
    /// The pid namespace, because pids are only meaningful within one pid namespace.
    namespace: String,
    pid: u32,
    started: u64,
}

impl Owner {
    pub(super) fn this_process() -> Result<Self, DockerError> {
        let pid = std::process::id();
        let started = started(pid).ok_or_else(|| DockerError::Owner(std::io::ErrorKind::NotFound.into()))?;
        let boot =
            read_to_string("/proc/sys/kernel/random/boot_id").map_err(DockerError::Owner)?.trim().to_owned();
        let namespace =
            read_link("/proc/self/ns/pid").map_err(DockerError::Owner)?.to_string_lossy().into_owned();
        let host = rustix::system::uname().nodename().to_string_lossy().replace('/', "_");
        Ok(Self { host, boot, namespace, pid, started })
    }

    pub(super) fn to_label(&self) -> String {
        format!("{}/{}/{}/{}/{}", self.host, self.boot, self.namespace, self.pid, self.started)
    }

    pub(super) fn parse(label: &str) -> Option<Self> {
        let mut parts = label.split('/');
        let mut next = || parts.next().map(str::to_owned);
        let (host, boot, namespace) = (next()?, next()?, next()?);
        let (pid, started) = (next()?.parse().ok()?, next()?.parse().ok()?);
        parts.next().is_none().then_some(Self { host, boot, namespace, pid, started })
    }

    /// Whether this owner certainly no longer exists. An owner on another host cannot be checked; one in another pid
    /// namespace is certainly gone only after a reboot.
    pub(super) fn is_gone(&self, us: &Self) -> bool {
        if self.host != us.host {
            return false;
        }
        if self.boot != us.boot {
            return true;
        }
        self.namespace == us.namespace && started(self.pid) != Some(self.started)
    }
}

fn started(pid: u32) -> Option<u64> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let alive = fields.next()? != "Z";
    fields.nth(18)?.parse().ok().filter(|_| alive)
}

#[cfg(test)]
mod tests {
    use super::Owner;

    #[test]
    fn an_owner_round_trips_through_its_label_and_is_not_gone_while_it_lives() {
        let us = Owner::this_process().unwrap();
        assert_eq!(Owner::parse(&us.to_label()), Some(us.clone()));
        assert!(!us.is_gone(&us));
    }

    #[test]
    fn only_an_owner_that_is_certainly_gone_counts_as_gone() {
        let us = Owner::this_process().unwrap();
        assert!(Owner { started: us.started + 1, ..us.clone() }.is_gone(&us), "the pid was reused");
        assert!(Owner { boot: "before".to_owned(), ..us.clone() }.is_gone(&us), "before the reboot");
        assert!(!Owner { host: "other".to_owned(), started: 1, ..us.clone() }.is_gone(&us), "another host");
        assert!(
            !Owner { namespace: "pid:[1]".to_owned(), started: 1, ..us.clone() }.is_gone(&us),
            "another pid namespace"
        );
        assert_eq!(Owner::parse("someone's"), None);
    }
}
