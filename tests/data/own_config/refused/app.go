package main

func main() {
	p, _ := kafka.NewProducer(&kafka.ConfigMap{"acks": "1"})
}
