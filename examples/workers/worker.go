// A worker in Go without packages: several jobs at a time, each of which renews its own lease.
//
//	go build worker.go
//	QUEUE_URL=http://127.0.0.1:8000 QUEUE_TOKEN=… QUEUE_KINDS=example.work ./worker
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

type object = map[string]any

type job struct {
	ID             int64
	Token, Outcome string
	Payload        object
}

var url, kinds, lease, slots = "http://127.0.0.1:8000", "example.work", 60, 4
var client = http.Client{Timeout: 40 * time.Second}

// The work of one job: returns its result, or an error. Put yours here; heed the context.
func run(ctx context.Context, payload object) (any, error) {
	seconds, _ := payload["seconds"].(float64)
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(seconds * float64(time.Second))):
	}
	if reason, given := payload["fail"].(string); given {
		return nil, errors.New(reason)
	}
	return object{"echo": payload["echo"]}, ctx.Err()
}

// The answer's items; nil: ask again later. With 409 every one of them is lost.
func post(path string, body object) []job {
	text, _ := json.Marshal(body)
	request, err := http.NewRequest("POST", url+"/api/leases"+path, bytes.NewReader(text))
	if err != nil {
		log.Fatalln("QUEUE_URL:", err)
	}
	request.Header.Set("Content-Type", "application/json")
	if token := os.Getenv("QUEUE_TOKEN"); token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var told struct{ Items []job }
	if code := answer.StatusCode; code != 200 && code != 409 && code != 429 && code < 500 {
		log.Fatalln("refused:", answer.Status) // a mistake in the request stays one
	}
	json.NewDecoder(answer.Body).Decode(&told) // what says "later", or is cut off, has no items
	return told.Items
}

// Say how the job ended until it has been heard. Sending it twice does no harm.
func settle(held job, end object) {
	end["id"], end["token"] = held.ID, held.Token
	for {
		said := post("/settle", object{"items": []object{end}})
		if said != nil && said[0].Outcome != "busy" {
			log.Println("job", held.ID, end["verb"], said[0].Outcome)
			return
		}
		time.Sleep(time.Second)
	}
}

// Run the job and keep its lease. Stopped: what is lost or over is nobody's business any more;
// everything else is given back.
func work(stopping context.Context, held job) {
	ctx, stop := context.WithCancel(stopping)
	defer stop()
	ended := make(chan object, 1)
	go func() {
		if result, err := run(ctx, held.Payload); err != nil {
			ended <- object{"verb": "fail", "error_class": fmt.Sprintf("%T", err), "error_message": err.Error()}
		} else {
			ended <- object{"verb": "succeed", "result": result}
		}
	}()
	for {
		select {
		case end := <-ended:
			if ctx.Err() != nil && end["verb"] == "fail" {
				end = object{"verb": "release"}
			}
			settle(held, end)
			return
		case <-time.After(time.Duration(lease) * time.Second / 3):
			renewal := object{"lease": lease, "items": []object{{"id": held.ID, "token": held.Token}}}
			for _, said := range post("/renew", renewal) {
				switch said.Outcome {
				case "cancel":
					stop()
				case "lost", "timeout":
					return // and stop: nobody waits for the end
				}
			}
		}
	}
}

func main() {
	fmt.Sscan(os.Getenv("QUEUE_URL"), &url) // what is not set stays as it is
	fmt.Sscan(os.Getenv("QUEUE_KINDS"), &kinds)
	fmt.Sscan(os.Getenv("QUEUE_LEASE"), &lease)
	fmt.Sscan(os.Getenv("QUEUE_SLOTS"), &slots)
	stopping, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	busy := make(chan bool, slots)
	for {
		busy <- true // wait until one is free
		<-busy
		if stopping.Err() != nil {
			break
		}
		wanted := object{"kinds": strings.Split(kinds, ","), "max": slots - len(busy), "lease": lease, "wait": 20}
		if len(busy) > 0 {
			wanted["wait"] = 1
		}
		jobs := post("", wanted)
		for _, one := range jobs {
			busy <- true
			go func(one job) { work(stopping, one); <-busy }(one)
		}
		if jobs == nil {
			time.Sleep(time.Second)
		}
	}
	for i := 0; i < slots; i++ {
		busy <- true // until all have ended
	}
}
