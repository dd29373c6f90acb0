package raftnode

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"time"
)

const (
	linkQuestionsMax = 256
	linkBackoffMin   = 20 * time.Millisecond
	linkBackoffMax   = time.Second
)

// confirmConn is what a link needs of a connection.
type confirmConn interface {
	io.ReadWriteCloser
	SetWriteDeadline(time.Time) error
}

// question is one round's request to one node, encoded.
type question struct {
	round *round
	frame []byte
}

// link is the connection to one node, dialled again with growing, jittered pauses while that node is away. Questions
// wait in a bounded queue, in which the oldest gives way.
type link struct {
	peer  NodeID
	owner *Confirmer
	queue chan question
}

func newLink(peer NodeID, owner *Confirmer) *link {
	return &link{peer: peer, owner: owner, queue: make(chan question, linkQuestionsMax)}
}

// send queues q without waiting.
func (l *link) send(q question) {
	for {
		select {
		case l.queue <- q:
			return
		default:
		}
		select {
		case <-l.queue:
		default:
		}
	}
}

func (l *link) run(ctx context.Context) {
	backoff := linkBackoffMin
	for ctx.Err() == nil {
		conn, err := l.owner.open(ctx, l.peer)
		if err == nil {
			backoff = linkBackoffMin
			l.serve(ctx, conn)
		}
		pauseFor(ctx, backoff/2+rand.N(backoff))
		backoff = min(2*backoff, linkBackoffMax)
	}
}

// serve sends questions and counts answers until the connection breaks or ctx ends.
func (l *link) serve(ctx context.Context, conn confirmConn) {
	ctx, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer cancel()
		l.read(conn)
	}()
	l.write(ctx, conn)
	cancel()
	conn.Close()
	<-read
}

func (l *link) read(conn confirmConn) {
	r := bufio.NewReader(conn)
	for {
		var a confirmAnswer
		if err := readFrame(r, &a, confirmBytesMax); err != nil {
			return
		}
		l.owner.answered(l.peer, a)
	}
}

func (l *link) write(ctx context.Context, conn confirmConn) {
	w := bufio.NewWriter(conn)
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-l.queue:
			if err := l.flush(conn, w, q); err != nil {
				return
			}
		}
	}
}

// flush writes q and whatever else waits, leaving out rounds that nobody waits for any more.
func (l *link) flush(conn confirmConn, w *bufio.Writer, q question) error {
	if err := conn.SetWriteDeadline(time.Now().Add(confirmWriteTimeout)); err != nil {
		return err
	}
	for {
		if !q.round.over.Load() {
			if _, err := w.Write(q.frame); err != nil {
				return err
			}
		}
		select {
		case q = <-l.queue:
		default:
			return w.Flush()
		}
	}
}
