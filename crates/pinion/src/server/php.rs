//! PHP that the server starts for its sites: a PHP-FPM for each site that has PHP, which the
//! supervisor keeps running as it does the programs of `[[program]]`.
//!
//! | Module | Does |
//! |---|---|
//! | [`php_fpm`] | finds the program, and its version |
//! | [`fpm_config`] | settings → the configuration of PHP-FPM; pure |
//! | [`private_folder`] | the folder of configurations and sockets, for this server alone |
//! | [`php_pools`] | which PHP-FPM each site has, at start and after each reload |
//! | [`limits`] | the limits of all of them |

mod fpm_config;
mod limits;
mod php_fpm;
pub(crate) mod php_pools;
mod private_folder;
