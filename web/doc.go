// Package web puts the HTTP surface together: it registers each route with its permission, gives every request an id,
// turns every failure into a problem document, keeps the access log, and runs the server within its limits.
//
// What a route does is the business of its children. It must not know how locks are granted or where state is kept.
package web
