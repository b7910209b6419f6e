//! The configuration of a PHP-FPM (php-fpm.conf), with one pool.

use super::limits::{IDLE_SECONDS, REQUESTS_PER_PROCESS, STOP_SECONDS};
use std::path::Path;

/// The settings of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct FpmConfig<'a> {
    /// The socket on which it listens.
    pub(super) socket: &'a Path,
    /// The user and the group that scripts run as, if not those of the server.
    pub(super) user: Option<(&'a str, u32)>,
    /// The most processes.
    pub(super) processes: u32,
    /// The most content of a request, in bytes.
    pub(super) upload_max_bytes: u64,
}

impl FpmConfig<'_> {
    /// Returns the text of the file. Errors of PHP-FPM and of scripts go to its standard error,
    /// those of scripts come with the response, too. `display_errors` is a default that
    /// applications and `.user.ini` may change; settings that the server depends on are fixed.
    pub(super) fn text(&self) -> String {
        let Self { socket, processes, upload_max_bytes, .. } = self;
        let user = self.user.map_or_else(String::new, |(user, group)| {
            format!("user = \"{user}\"\ngroup = {group}\n")
        });
        format!(
            "[global]\n\
             error_log = /proc/self/fd/2\n\
             log_level = warning\n\
             daemonize = no\n\
             process_control_timeout = {STOP_SECONDS}s\n\
             [pinion]\n\
             listen = \"{socket}\"\n\
             listen.mode = 0600\n\
             {user}\
             pm = ondemand\n\
             pm.max_children = {processes}\n\
             pm.process_idle_timeout = {IDLE_SECONDS}s\n\
             pm.max_requests = {REQUESTS_PER_PROCESS}\n\
             catch_workers_output = yes\n\
             decorate_workers_output = no\n\
             clear_env = yes\n\
             security.limit_extensions = .php\n\
             php_admin_value[cgi.fix_pathinfo] = 0\n\
             php_admin_value[upload_max_filesize] = {upload_max_bytes}\n\
             php_admin_value[post_max_size] = {upload_max_bytes}\n\
             php_admin_flag[expose_php] = off\n\
             php_admin_flag[log_errors] = on\n\
             php_flag[display_errors] = off\n",
            socket = socket.display(),
        )
    }
}

/// Returns whether a text can stand in quotation marks in the file: there it has no other meaning.
pub(super) fn is_plain(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@:~, ".contains(&byte);
    text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_only_written_if_it_is_another_one() {
        let config = FpmConfig {
            socket: Path::new("/run/a b.sock"),
            user: None,
            processes: 3,
            upload_max_bytes: 5,
        };
        let text = config.text();
        assert!(text.contains("listen = \"/run/a b.sock\"\nlisten.mode = 0600\npm = ondemand\n"));
        assert!(text.contains("post_max_size] = 5\n") && !text.contains("user ="), "{text}");
        let text = FpmConfig { user: Some(("www-data", 33)), ..config }.text();
        assert!(text.contains("0600\nuser = \"www-data\"\ngroup = 33\npm"), "{text}");
    }

    #[test]
    fn paths_with_special_characters_are_not_plain() {
        assert!(is_plain("/run/user/1000/pinion-programs-0a/php-fpm.sock") && is_plain(""));
        for text in ["/run/\"", "/a\nb", "/a${b}", "/a;b", "/a\\b", "/\u{fc}"] {
            assert!(!is_plain(text), "{text}");
        }
    }
}
