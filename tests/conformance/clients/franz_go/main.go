// franz-go behind the words of ../driven.py: JSON lines in, JSON lines out.
//
//	franz BOOTSTRAP                     answers requests until standard input closes
//	franz BOOTSTRAP member TOPIC GROUP  prints what it owns and reads, leaves when standard input closes
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type record struct {
	Key     []byte  `json:"key"`
	Value   []byte  `json:"value"`
	Headers [][]any `json:"headers"`
}

type request struct {
	Operation string   `json:"operation"`
	Topic     string   `json:"topic"`
	Partition *int32   `json:"partition"`
	Codec     string   `json:"codec"`
	Records   []record `json:"records"`
	Count     int      `json:"count"`
	Group     string   `json:"group"`
	Total     int      `json:"total"`
	Name      string   `json:"name"`
	Value     string   `json:"value"`
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"`
	Values    []string `json:"values"`
	Commit    bool     `json:"commit"`
	Source    string   `json:"source"`
}

var seeds []string

func tell(line any) {
	bytes, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(bytes))
}

// A login on SASL_SSL, where the environment names one.
func login() []kgo.Opt {
	user, found := os.LookupEnv("MOLDAU_CONFORMANCE_USER")
	if !found {
		return nil
	}
	pem, err := os.ReadFile(os.Getenv("MOLDAU_CONFORMANCE_AUTHORITY"))
	if err != nil {
		panic(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(pem)
	as := scram.Auth{User: user, Pass: os.Getenv("MOLDAU_CONFORMANCE_PASSWORD")}
	return []kgo.Opt{kgo.DialTLSConfig(&tls.Config{RootCAs: authorities}), kgo.SASL(as.AsSha512Mechanism())}
}

func client(options ...kgo.Opt) (*kgo.Client, error) {
	options = append(options, login()...)
	return kgo.NewClient(append(options, kgo.SeedBrokers(seeds...), kgo.ClientID("franz-go"))...)
}

func codec(name string) kgo.CompressionCodec {
	switch name {
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	}
	return kgo.NoCompression()
}

func produce(ctx context.Context, asked request) error {
	producer, err := client(
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codec(asked.Codec)),
		kgo.ProducerBatchMaxBytes(1<<20),
	)
	if err != nil {
		return err
	}
	defer producer.Close()
	var records []*kgo.Record
	for _, one := range asked.Records {
		made := &kgo.Record{Topic: asked.Topic, Partition: *asked.Partition, Key: one.Key, Value: one.Value}
		for _, pair := range one.Headers {
			header := kgo.RecordHeader{Key: pair[0].(string)}
			if pair[1] != nil {
				quoted, _ := json.Marshal(pair[1])
				if err := json.Unmarshal(quoted, &header.Value); err != nil {
					return err
				}
			}
			made.Headers = append(made.Headers, header)
		}
		records = append(records, made)
	}
	return producer.ProduceSync(ctx, records...).FirstErr()
}

func collect(ctx context.Context, consumer *kgo.Client, count int) ([]record, error) {
	found := []record{}
	for len(found) < count {
		fetches := consumer.PollRecords(ctx, count-len(found))
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(one *kgo.Record) {
			headers := [][]any{}
			for _, header := range one.Headers {
				headers = append(headers, []any{header.Key, header.Value})
			}
			found = append(found, record{one.Key, one.Value, headers})
		})
	}
	return found, nil
}

func read(ctx context.Context, asked request) ([]record, error) {
	start := map[string]map[int32]kgo.Offset{asked.Topic: {*asked.Partition: kgo.NewOffset().AtStart()}}
	consumer, err := client(kgo.ConsumePartitions(start))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	return collect(ctx, consumer, asked.Count)
}

func groupOptions(topic, group string) []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.FetchMaxWait(100 * time.Millisecond),
	}
}

func readAndCommit(ctx context.Context, asked request) ([]record, error) {
	consumer, err := client(append(groupOptions(asked.Topic, asked.Group), kgo.DisableAutoCommit())...)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	found, err := collect(ctx, consumer, asked.Count)
	if err != nil {
		return nil, err
	}
	return found, consumer.CommitUncommittedOffsets(ctx)
}

func produceAll(ctx context.Context, writer *kgo.Client, topic string, values ...string) error {
	var records []*kgo.Record
	for _, value := range values {
		records = append(records, &kgo.Record{Topic: topic, Partition: 0, Value: []byte(value)})
	}
	return writer.ProduceSync(ctx, records...).FirstErr()
}

func transactional(name string) (*kgo.Client, error) {
	return client(kgo.TransactionalID(name), kgo.RecordPartitioner(kgo.ManualPartitioner()))
}

func transact(ctx context.Context, asked request) error {
	if asked.Group != "" {
		return transactAsMember(ctx, asked)
	}
	writer, err := transactional(asked.Name)
	if err != nil {
		return err
	}
	defer writer.Close()
	if err := writer.BeginTransaction(); err != nil {
		return err
	}
	if err := produceAll(ctx, writer, asked.Topic, asked.Values...); err != nil {
		return err
	}
	return writer.EndTransaction(ctx, kgo.TransactionEndTry(asked.Commit))
}

// The position is where a member of the group has come to: franz-go sends no other one.
func transactAsMember(ctx context.Context, asked request) error {
	options := append(groupOptions(asked.Source, asked.Group),
		kgo.SeedBrokers(seeds...), kgo.ClientID("franz-go"), kgo.TransactionalID(asked.Name),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequireStableFetchOffsets())
	session, err := kgo.NewGroupTransactSession(append(options, login()...)...)
	if err != nil {
		return err
	}
	defer session.Close()
	if err := session.Begin(); err != nil {
		return err
	}
	for read := 0; read < int(asked.Offset); {
		fetches := session.PollRecords(ctx, int(asked.Offset)-read)
		if err := fetches.Err(); err != nil {
			return err
		}
		read += fetches.NumRecords()
	}
	if err := produceAll(ctx, session.Client(), asked.Topic, asked.Values...); err != nil {
		return err
	}
	_, err = session.End(ctx, kgo.TransactionEndTry(asked.Commit))
	return err
}

func fence(ctx context.Context, asked request) error {
	first, err := transactional(asked.Name)
	if err != nil {
		return err
	}
	defer first.Close()
	if err := first.BeginTransaction(); err != nil {
		return err
	}
	if err := produceAll(ctx, first, asked.Topic, "before"); err != nil {
		return err
	}
	second, err := transactional(asked.Name)
	if err != nil {
		return err
	}
	defer second.Close()
	if err := second.BeginTransaction(); err != nil {
		return err
	}
	if err := produceAll(ctx, second, asked.Topic, "aborted"); err != nil {
		return err
	}
	if err := second.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return err
	}
	if err := produceAll(ctx, first, asked.Topic, "old"); err != nil {
		return err
	}
	return first.EndTransaction(ctx, kgo.TryCommit)
}

func administer(ctx context.Context, asked request) (any, error) {
	connection, err := client()
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	admin := kadm.NewClient(connection)
	switch asked.Operation {
	case "add_partitions":
		answers, err := admin.UpdatePartitions(ctx, asked.Total, asked.Topic)
		if err != nil {
			return nil, err
		}
		return nil, answers.Error()
	case "partition_count":
		topics, err := admin.ListTopics(ctx, asked.Topic)
		if err != nil {
			return nil, err
		}
		return len(topics[asked.Topic].Partitions), nil
	case "set_config":
		change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: asked.Name, Value: &asked.Value}}
		answers, err := admin.AlterTopicConfigs(ctx, change, asked.Topic)
		if err != nil {
			return nil, err
		}
		return nil, answers[0].Err
	case "config":
		described, err := admin.DescribeTopicConfigs(ctx, asked.Topic)
		if err != nil {
			return nil, err
		}
		for _, one := range described[0].Configs {
			if one.Key == asked.Name {
				return one.MaybeValue(), nil
			}
		}
		return nil, fmt.Errorf("no config %s", asked.Name)
	case "delete_records":
		offsets := kadm.Offsets{}
		offsets.AddOffset(asked.Topic, *asked.Partition, asked.Offset, -1)
		answers, err := admin.DeleteRecords(ctx, offsets)
		if err != nil {
			return nil, err
		}
		answer, _ := answers.Lookup(asked.Topic, *asked.Partition)
		return answer.LowWatermark, answer.Err
	case "groups":
		groups, err := admin.ListGroups(ctx)
		if err != nil {
			return nil, err
		}
		return groups.Groups(), nil
	case "delete_group":
		answers, err := admin.DeleteGroups(ctx, asked.Group)
		if err != nil {
			return nil, err
		}
		return nil, answers.Error()
	case "offset_at":
		listed, err := admin.ListOffsetsAfterMilli(ctx, asked.Timestamp, asked.Topic)
		if err != nil {
			return nil, err
		}
		found, _ := listed.Lookup(asked.Topic, *asked.Partition)
		return found.Offset, found.Err
	case "delete_topic":
		answers, err := admin.DeleteTopics(ctx, asked.Topic)
		if err != nil {
			return nil, err
		}
		return nil, answers.Error()
	}
	return nil, fmt.Errorf("unknown operation %s", asked.Operation)
}

func answer(asked request) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	switch asked.Operation {
	case "produce":
		return nil, produce(ctx, asked)
	case "read":
		return read(ctx, asked)
	case "read_and_commit":
		return readAndCommit(ctx, asked)
	case "transact":
		return nil, transact(ctx, asked)
	case "fence":
		return nil, fence(ctx, asked)
	}
	return administer(ctx, asked)
}

func serve() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var asked request
		err := json.Unmarshal(lines.Bytes(), &asked)
		var result any
		if err == nil {
			result, err = answer(asked)
		}
		if err != nil {
			tell(map[string]any{"error": err.Error()})
		} else {
			tell(map[string]any{"result": result})
		}
	}
}

func member(topic, group string) {
	owned := map[int32]bool{}
	tellOwned := func() {
		list := []int32{}
		for partition := range owned {
			list = append(list, partition)
		}
		tell(map[string]any{"event": "assigned", "content": list})
	}
	gained := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		for _, partition := range partitions[topic] {
			owned[partition] = true
		}
		tellOwned()
	}
	gone := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		for _, partition := range partitions[topic] {
			delete(owned, partition)
		}
		tellOwned()
	}
	options := append(groupOptions(topic, group), kgo.OnPartitionsAssigned(gained), kgo.OnPartitionsRevoked(gone),
		kgo.OnPartitionsLost(gone), kgo.AutoCommitInterval(200*time.Millisecond))
	consumer, err := client(options...)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	for ctx.Err() == nil {
		consumer.PollFetches(ctx).EachRecord(func(one *kgo.Record) {
			tell(map[string]any{"event": "value", "content": string(one.Value)})
		})
	}
	consumer.Close()
}

func main() {
	seeds = strings.Split(os.Args[1], ",")
	if len(os.Args) > 2 && os.Args[2] == "member" {
		member(os.Args[3], os.Args[4])
		return
	}
	serve()
}
