//! Gateways: requests that another server responds to (RFC 9110 §3.7).
//!
//! A worker has one [`proxy::Proxy`]. It forwards requests to upstream servers over connections of
//! the engine, and their responses to the clients, in both directions as far as there is room.
//! Functions without I/O decide the form of a forwarded message.
//!
//! | Module | Task |
//! |---|---|
//! | [`upstream`] | a server that requests are forwarded to |
//! | [`upstream_group`] | the servers of a mount, and how requests and responses are changed |
//! | [`balancing`] | which of several servers a request goes to |
//! | [`server_health`] | which of several servers can be used |
//! | [`path_prefix`] | the paths of mounts, and the paths that servers get in their place |
//! | [`field_changes`] | fields that an operator sets or removes |
//! | [`request_forwarding`] | a request as the upstream server gets it |
//! | [`response_forwarding`] | the fields of a response as the client gets them |
//! | [`x_sendfile`] | responses in place of whose content a file is sent |
//! | [`fastcgi_scgi_variables`] | a request as an application behind FastCGI or SCGI gets it |
//! | [`script_location`] | which script of a folder responds to a path |
//! | `field_forwarding` | which fields are forwarded (RFC 9110 §7.6.1) |
//! | [`cgi`] | the requests of one worker that CGI scripts respond to |
//! | [`proxy`] | the requests of one worker that are forwarded |
//! | [`python`] | the requests of one worker that Python applications respond to |
//! | `stored_content` | content that is stored before a server is asked or a script is started |
//! | `tunnels`, `tunnel_side` | connections that were switched to another protocol |
//! | `websocket_handshake` | WebSockets over HTTP/2 and HTTP/3, as the upstream server gets them |
//! | [`proxy_error`] | why a request has no response, and the status for that |
//! | [`limits`] | every limit with its reason |
#![forbid(unsafe_code)]

pub mod balancing;
pub mod cgi;
pub mod fastcgi_scgi_variables;
pub mod field_changes;
mod field_forwarding;
pub mod limits;
pub mod path_prefix;
pub mod proxy;
pub mod proxy_error;
pub mod python;
pub mod request_forwarding;
pub mod response_forwarding;
pub mod script_location;
pub mod server_health;
mod stored_content;
mod tunnel_side;
mod tunnels;
pub mod upstream;
pub mod upstream_group;
mod websocket_handshake;
pub mod x_sendfile;
