package raftnode

import (
	"bufio"
	"errors"
	"io"
	"net"
	"time"
)

const (
	confirmBytesMax     = 256
	confirmWriteTimeout = 5 * time.Second
)

// confirmRequest asks a voter where it stands in a group.
type confirmRequest struct {
	Group GroupID `cbor:"1,keyasint"`
	Term  uint64  `cbor:"2,keyasint"` // of the leader that asks; for the other side's log only
	Nonce uint64  `cbor:"3,keyasint"`
}

// confirmAnswer says where the voter stands, read after the question arrived.
type confirmAnswer struct {
	Group  GroupID `cbor:"1,keyasint"`
	Nonce  uint64  `cbor:"2,keyasint"`
	Server NodeID  `cbor:"3,keyasint"`
	Term   uint64  `cbor:"4,keyasint"`
	State  State   `cbor:"5,keyasint"`
}

func decodeConfirmRequest(body []byte) (confirmRequest, error) {
	var r confirmRequest
	if err := decodeFrame(body, &r); err != nil {
		return confirmRequest{}, err
	}
	return r, r.Group.Validate()
}

func decodeConfirmAnswer(body []byte) (confirmAnswer, error) {
	var a confirmAnswer
	if err := decodeFrame(body, &a); err != nil {
		return confirmAnswer{}, err
	}
	return a, errors.Join(a.Group.Validate(), a.Server.Validate())
}

// serveConfirm answers another node's questions until the connection ends. Answers wait for no disk and no lock of
// Raft's: term and state are two atomic reads.
func (m *Mux) serveConfirm(conn *peerConn) {
	defer conn.Close()
	r, w := bufio.NewReader(conn), bufio.NewWriter(conn)
	for {
		if err := m.answerOne(conn, r, w); err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !m.isClosed() {
				m.cfg.Logger.Info("confirm connection ended", "node", conn.peer, "error", err)
			}
			return
		}
	}
}

func (m *Mux) answerOne(conn net.Conn, r *bufio.Reader, w *bufio.Writer) error {
	var q confirmRequest
	if err := readFrame(r, &q, confirmBytesMax); err != nil {
		return err
	}
	if err := q.Group.Validate(); err != nil {
		return err
	}
	if err := writeFrame(w, m.confirmation(q), confirmBytesMax); err != nil {
		return err
	}
	if r.Buffered() > 0 { // more questions wait: answer them with one write
		return nil
	}
	if err := conn.SetWriteDeadline(time.Now().Add(confirmWriteTimeout)); err != nil {
		return err
	}
	return w.Flush()
}

func (m *Mux) confirmation(q confirmRequest) confirmAnswer {
	a := confirmAnswer{Group: q.Group, Nonce: q.Nonce, Server: m.Node()}
	if e := m.endpoint(q.Group); e != nil {
		a.Term, a.State = e.state()
	}
	return a
}
