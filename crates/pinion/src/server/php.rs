//! PHP that the server starts for its sites: a PHP-FPM for each site that has PHP, which the
//! supervisor keeps running as it does the programs of `[[program]]`.
//!
//! | Module | Does |
//! |---|---|
//! | [`folder_access`] | whether the user of PHP can read the scripts |
//! | [`php_fpm`] | finds the program, and its version |
//! | [`fpm_config`] | settings → the configuration of PHP-FPM; pure |
//! | [`php_pools`] | which PHP-FPM each site has, at start and after each reload |
//! | [`unrun_scripts`] | PHP scripts of a folder that nothing runs |
//! | [`limits`] | the limits of all of them |

mod folder_access;
mod fpm_config;
pub(crate) mod limits;
mod php_fpm;
pub(crate) mod php_pools;
pub(crate) mod unrun_scripts;
