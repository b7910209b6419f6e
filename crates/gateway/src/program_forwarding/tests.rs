//! What applications get.

use super::*;
