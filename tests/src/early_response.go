// Go's client sends more than the server reads, and has to see the response that came before.
//
// go run early_response.go HTTP-URL HTTPS-URL CERTIFICATE
//
// Each URL refuses the sent content. Over HTTP/1 any length is dropped; over HTTP/2 up to a
// mebibyte.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
)

const largeBytes, littleBytes = 16 << 20, 900 << 10

func main() {
	pem, err := os.ReadFile(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	settings := &tls.Config{RootCAs: roots}
	// A transport that may speak HTTP/2 adds that to its settings, so each has its own.
	http1 := &http.Client{Transport: &http.Transport{TLSClientConfig: settings.Clone()}}
	http2 := &http.Client{
		Transport: &http.Transport{TLSClientConfig: settings.Clone(), ForceAttemptHTTP2: true},
	}
	seen := 0
	for round := 0; round < 3; round++ {
		send(http1, os.Args[1], largeBytes, 1)
		send(http1, os.Args[2], largeBytes, 1)
		send(http2, os.Args[2], littleBytes, 2)
		seen += 3
	}
	fmt.Print(seen)
}

func send(client *http.Client, url string, count, version int) {
	content := bytes.NewReader(make([]byte, count))
	response, err := client.Post(url, "application/octet-stream", content)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
	status := response.StatusCode
	if response.ProtoMajor != version || status != 405 && status != 413 {
		log.Fatal(response.Proto, " ", status)
	}
}
