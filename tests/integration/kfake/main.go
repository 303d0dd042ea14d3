// Starts a Kafka-protocol server of another make (franz-go's kfake) with three brokers, prints their
// addresses on one line, and ends when its standard input is closed. With the argument `forgetful` it
// acks records and stores none; with `alone PORT` it has one broker, and with `alone PORT FOLDER` this broker
// syncs each write to the folder instead of keeping records in memory.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	options := []kfake.Opt{kfake.NumBrokers(3)}
	if len(os.Args) > 1 && os.Args[1] == "forgetful" {
		options = append(options, kfake.BlackholeProduce())
	}
	if len(os.Args) > 2 && os.Args[1] == "alone" {
		port, err := strconv.Atoi(os.Args[2])
		if err != nil {
			log.Fatal(err)
		}
		options = []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(port)}
		if len(os.Args) > 3 {
			options = append(options, kfake.DataDir(os.Args[3]), kfake.SyncWrites())
		}
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	io.Copy(io.Discard, os.Stdin)
}
