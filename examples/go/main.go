// An application under test in Go: sends orders with franz-go, and writes an acked log of every one.
//
// ackproof run examples/application.yaml starts a program like this; docs/how-to/own-application.md.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// One line of the acked log: docs/reference/acked-log.md.
type line struct {
	Topic      string `json:"topic"`
	Partition  *int32 `json:"partition,omitempty"`
	Offset     *int64 `json:"offset,omitempty"`
	Outcome    string `json:"outcome"`
	Key        string `json:"key"`
	Error      string `json:"error,omitempty"`
	SentAt     int64  `json:"sent_at"`
	ResolvedAt int64  `json:"resolved_at"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var settings map[string]any
	must(json.Unmarshal([]byte(os.Getenv("ACKPROOF_SETTINGS")), &settings))
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(os.Getenv("ACKPROOF_BOOTSTRAP_SERVERS"), ",")...),
		kgo.DefaultProduceTopic(os.Getenv("ACKPROOF_TOPIC")),
	}
	if fmt.Sprint(settings["acks"]) == "1" {
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	must(err)
	defer client.Close()
	log, err := os.OpenFile(os.Getenv("ACKPROOF_ACKED"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	must(err)
	var lock sync.Mutex

	for order := 0; ctx.Err() == nil; order++ {
		sent := time.Now().UnixMilli()
		record := kgo.KeySliceRecord([]byte(fmt.Sprintf("order-%d", order)), []byte("3 apples"))
		client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
			entry := line{
				Topic: record.Topic, Key: string(record.Key),
				Outcome: "acked", SentAt: sent, ResolvedAt: time.Now().UnixMilli(),
			}
			if err != nil {
				entry.Outcome, entry.Error = "unknown", err.Error()
			} else {
				entry.Partition, entry.Offset = &record.Partition, &record.Offset
			}
			text, err := json.Marshal(entry)
			must(err)
			lock.Lock()
			defer lock.Unlock()
			_, err = log.Write(append(text, '\n')) // one write: SIGKILL cannot tear it
			must(err)
		})
		time.Sleep(500 * time.Microsecond)
	}
	must(client.Flush(context.Background()))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
