// A server in Go that is killed and stopped while requests arrive: PORT NOTES.
//
// GET /page/ID/BYTES responds with the ID, repeated up to BYTES bytes. POST /do/ID appends the ID
// to the file NOTES before it responds with the length of the received content.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
)

func main() {
	port, notes := os.Args[1], os.Args[2]
	handler := func(response http.ResponseWriter, request *http.Request) {
		parts := append(strings.Split(request.URL.Path[1:], "/"), "", "0")
		came, err := io.Copy(io.Discard, request.Body)
		if err != nil {
			return
		}
		response.Header().Set("Content-Type", "text/plain")
		response.Header().Set("X-Server", "go")
		if parts[0] == "do" {
			file, err := os.OpenFile(notes, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Fprintln(file, parts[1])
			file.Close()
			fmt.Fprintf(response, "%s %d", parts[1], came)
			return
		}
		count, _ := strconv.Atoi(parts[2])
		text := parts[1] + "-"
		io.WriteString(response, strings.Repeat(text, count/len(text)+1)[:count])
	}
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, http.HandlerFunc(handler)))
}
