package leader

// rounds shares confirm rounds: whoever asks while one is under way is served by the next, which begins after it asked.
type rounds struct {
	net     Net
	id      uint64
	running []func(error) // nil: no round under way
	next    []func(error)
}

// ask calls done after a round that begins from here on.
func (r *rounds) ask(done func(error)) {
	r.next = append(r.next, done)
	if r.running == nil {
		r.begin()
	}
}

func (r *rounds) begin() {
	r.id++
	r.running, r.next = r.next, nil
	r.net.Confirm(r.id)
}

// finish answers the round's askers and begins the next round if anybody waits for it.
func (r *rounds) finish(id uint64, err error) {
	if id != r.id || r.running == nil {
		return
	}
	done := r.running
	r.running = nil
	if len(r.next) > 0 {
		r.begin()
	}
	for _, f := range done {
		f(err)
	}
}

// drain answers everybody who asked, with err.
func (r *rounds) drain(err error) {
	all := append(r.running, r.next...)
	r.running, r.next = nil, nil
	for _, f := range all {
		f(err)
	}
}
