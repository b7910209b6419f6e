//! PHP of a site: whether the server starts it, and how.

use super::{mount_with, number, path, read, row, single};
use crate::directive_value_parsers;
use crate::directives;
use crate::failure::Failure;
use crate::raw_settings::Low;
use crate::served_source::ServedSource;
use crate::server::mounts::{Mount, Mounts};
use crate::server::php::limits::UPLOAD_LIMIT_MIN_BYTES;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf, absolute};

/// The script that makes a folder an application in PHP.
pub(crate) const INDEX: &str = "index.php";

/// The settings with which PHP is started for a site. Sites with equal settings that are loaded one
/// after the other have the same processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PhpSettings {
    /// The folder with the scripts: an absolute path.
    pub(crate) root: PathBuf,
    /// The program. `None`: it is looked for.
    pub(crate) program: Option<PathBuf>,
    /// The user, by name or number. `None`: that of the server.
    pub(crate) user: Option<String>,
    /// The most processes. `None`: from the cores and the memory of the machine.
    pub(crate) processes: Option<u32>,
    /// Most content of a request, in bytes.
    pub(crate) upload_max_bytes: u64,
    /// The settings of the mount beside the socket.
    mount: Low,
}

impl PhpSettings {
    /// Reads the settings for the PHP of a site. `wish` is the setting that asks for PHP, if there
    /// is one. Without it PHP runs in a folder that has an index.php and no mount for that. Returns
    /// `None` if PHP does not run.
    ///
    /// # Errors
    /// [`Failure::Usage`]: something has no effect, or is wrong.
    pub(crate) fn of(
        low: &Low,
        source: &ServedSource,
        mounts: &Mounts,
        wish: Option<&str>,
    ) -> Result<Option<Self>, Failure> {
        let shown = source.path().display();
        let without_effect = |why: &str| match wish {
            Some(wish) => Err(Failure::usage(format!("{wish} has no effect on {shown}: {why}"))),
            None => Ok(None),
        };
        if low.given("no-php") {
            return without_effect("--no-php is given (in a file php = false); leave one out");
        }
        let ServedSource::Folder(folder) = source else {
            return without_effect("PHP runs the scripts of a folder; leave it out");
        };
        if mounts.has_root_mount() {
            return without_effect("there is a mount for the path / already; leave one out");
        }
        if wish.is_none() && (mounts.runs_scripts() || !folder.join(INDEX).is_file()) {
            return Ok(None);
        }
        if let Some(flag) = ["single-page", "listing"].into_iter().find(|flag| low.given(flag)) {
            return Err(Failure::usage(format!(
                "--{flag} would respond instead of the scripts of {shown}; leave it out, or give \
                 --no-php (in a file php = false)"
            )));
        }
        Self::of_folder(low, folder).map(Some)
    }

    fn of_folder(low: &Low, folder: &Path) -> Result<Self, Failure> {
        let root = absolute(folder).map_err(|error| {
            Failure::usage(format!("cannot make {} an absolute path: {error}", folder.display()))
        })?;
        let checked =
            |name: &'static str, text: &OsStr| read(row(name), text, |text| Ok(text.to_owned()));
        let user = low.values("php-user").next().map(|text| checked("php-user", text));
        let all = |name| {
            let texts = low.values(name).map(|text| checked(name, text).map(Into::into));
            texts.collect::<Result<Vec<OsString>, Failure>>()
        };
        let (no_exec, sent) = (all("no-exec")?, all("php-send-files")?);
        let upload_max_bytes =
            single(low, "php-upload-limit", directive_value_parsers::size)?.unwrap_or_default();
        if upload_max_bytes < UPLOAD_LIMIT_MIN_BYTES {
            return Err(Failure::usage(format!(
                "--php-upload-limit: {upload_max_bytes} means bytes, too few for a form; write \
                 {upload_max_bytes}M for MiB"
            )));
        }
        let mut mount = Low::new(low.verb);
        mount.set("mount-root", vec![root.clone().into()]);
        mount.set("mount-buffer-uploads", Vec::new());
        mount.set("mount-buffer-limit", vec![upload_max_bytes.to_string().into()]);
        if low.given("php-pass-authorization") {
            mount.set("mount-pass-authorization", Vec::new());
        }
        if !no_exec.is_empty() {
            mount.set("mount-no-exec", no_exec);
        }
        if !sent.is_empty() {
            mount.set("mount-send-files", sent);
        }
        Ok(Self {
            root,
            program: path(low, "php-fpm")?,
            user: user.transpose()?,
            processes: number(low, "php-processes")?,
            upload_max_bytes,
            mount,
        })
    }

    /// Returns the mount of PHP that listens on a Unix socket. No connection is kept: a kept one
    /// would occupy a process, and PHP-FPM may close it just when the next request is sent, which
    /// cannot be sent once more if it changes something.
    ///
    /// # Errors
    /// [`Failure::Usage`]: a folder of `no-exec` is wrong.
    pub(crate) fn mount(&self, socket: &Path) -> Result<Mount, Failure> {
        let mut low = self.mount.clone();
        let mut address = OsString::from("unix:");
        address.push(socket);
        low.set("mount-fastcgi", vec![address]);
        let mount = mount_with(&low, |upstream| upstream.waits_for_socket = true);
        mount.map_err(|fault| Failure::usage(format!("PHP: {fault}")))
    }
}

/// Returns the name of a given flag or key that asks for PHP: any about PHP, except `no-php`.
pub(crate) fn php_wish(low: &Low) -> Option<&'static str> {
    let mut names = directives::php_rows().map(|row| row.name).filter(|name| *name != "no-php");
    names.find(|name| low.given(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directives::verbs::Verb;
    use crate::server::mounts::MountPath;
    use pinion_gateway::upstream::Upstream;
    use pinion_gateway::upstream_group::UpstreamGroup;
    use std::fs;

    fn low(texts: &[(&'static str, &str)]) -> Low {
        let mut low = Low::new(Verb::Serve);
        texts.iter().for_each(|(name, value)| low.push(name, value.into()));
        low
    }

    fn mounts(path: &str) -> Mounts {
        let upstream = Upstream::parse("http://a").expect("a URL");
        let path = MountPath::parse(path).expect("a path");
        Mounts::new(vec![Mount::new(path, UpstreamGroup::of_one(upstream))]).expect("mounts")
    }

    #[test]
    fn php_runs_if_there_is_an_index_or_a_setting() {
        let folder = std::env::temp_dir().join(format!("pinion-php-wish-{}", std::process::id()));
        fs::create_dir(&folder).expect("made");
        let source = ServedSource::Folder(folder.clone());
        let of = |low: &Low, source: &ServedSource, mounts: &Mounts, wish: Option<&str>| {
            PhpSettings::of(low, source, mounts, wish).map(|php| php.is_some())
        };
        let (nothing, none) = (low(&[]), Mounts::default());
        let is_run = |low: &Low, wish| of(low, &source, &none, wish).expect("no mistake");
        assert!(!is_run(&nothing, None) && is_run(&nothing, Some("php = true")));
        fs::write(folder.join(INDEX), "").expect("written");
        assert!(is_run(&nothing, None) && !is_run(&low(&[("no-php", "")]), None));
        let archive = ServedSource::Archive("a.pinion".into());
        assert_eq!(of(&nothing, &archive, &none, None).ok(), Some(false));
        assert_eq!(of(&nothing, &source, &mounts("/"), None).ok(), Some(false));
        assert_eq!(of(&nothing, &source, &mounts("/api"), None).ok(), Some(true));
        for (low, source, mounts, wish, message) in [
            (low(&[("no-php", "")]), &source, &none, "--php-user", "--no-php is given"),
            (low(&[]), &archive, &none, "--php-user", "the scripts of a folder"),
            (low(&[]), &source, &mounts("/"), "php = true", "a mount for the path / already"),
            (low(&[("listing", "")]), &source, &none, "php = true", "--listing would respond"),
            (low(&[("php-user", "a b")]), &source, &none, "--php-user", "--php-user: "),
            (low(&[("php-upload-limit", "64")]), &source, &none, "--php-user", "write 64M for"),
        ] {
            let failure = of(&low, source, mounts, Some(wish)).expect_err(message);
            assert!(failure.reason().is_some_and(|why| why.contains(message)), "{failure:?}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn the_mount_of_php_is_that_of_its_keys() {
        let written = low(&[("php-upload-limit", "2M"), ("no-exec", "a"), ("no-exec", "b/c")]);
        let source = ServedSource::Folder("site".into());
        let php = PhpSettings::of(&written, &source, &Mounts::default(), Some("no-exec"));
        let php = php.expect("no mistake").expect("PHP");
        assert!(php.root.is_absolute() && php.root.ends_with("site"));
        let mount = php.mount(Path::new("/run/a.sock")).expect("a mount");
        assert_eq!(mount.to_string(), "forwarded to fastcgi+unix:/run/a.sock");
        let upstreams = mount.upstreams().expect("servers");
        assert_eq!(upstreams.options().stored_upload_max_bytes, Some(2 << 20));
        assert!(upstreams.servers().all(|server| server.upstream.waits_for_socket));
        let wrong = low(&[("no-exec", "../a")]);
        let php = PhpSettings::of(&wrong, &source, &Mounts::default(), Some("no-exec"));
        assert!(php.is_err_and(|failure| failure.reason().is_some()));
    }
}
