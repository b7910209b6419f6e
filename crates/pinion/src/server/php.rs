//! PHP that the server starts for its sites: a PHP-FPM for each site that has PHP, which the
//! supervisor keeps running as it does the programs of `[[program]]`.
//!
//! | Module | Does |
//! |---|---|
//! | [`script_read_access`] | whether the user of PHP can read the scripts |
//! | [`php_fpm_discovery`] | finds the program, and its version |
//! | [`fpm_config`] | settings → the configuration of PHP-FPM; pure |
//! | [`php_pools`] | which PHP-FPM each site has, at start and after each reload |
//! | [`unrun_scripts`] | PHP scripts of a folder that nothing runs |
//! | [`limits`] | the limits of all of them |

mod fpm_config;
pub(crate) mod limits;
mod php_fpm_discovery;
pub(crate) mod php_pools;
mod script_read_access;
pub(crate) mod unrun_scripts;
