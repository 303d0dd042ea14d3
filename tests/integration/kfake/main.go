// Starts a Kafka-protocol server of another make (franz-go's kfake) with three brokers, prints their
// addresses on one line, and ends when its standard input is closed. With the argument `forgetful` it
// acks records and stores none.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	options := []kfake.Opt{kfake.NumBrokers(3)}
	if len(os.Args) > 1 && os.Args[1] == "forgetful" {
		options = append(options, kfake.BlackholeProduce())
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	io.Copy(io.Discard, os.Stdin)
}
