package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/stanchion-locks/stanchion/audit"
	"github.com/stanchion-locks/stanchion/client/wire"
)

// verifyNow checks that the cluster's logs begin with the rows that an export saw.
func verifyNow(ctx context.Context, client *apiClient, report *auditReport, file string) error {
	old, err := readExport(file, nil)
	if err != nil {
		return report.exportFault(file, err)
	}
	var now wire.AuditCheckpoints
	if _, err := client.call(ctx, apiRequest{method: http.MethodGet, path: auditPath + "/checkpoint"}, &now); err != nil {
		return err
	}
	today := newRowChecks(now.Checkpoints).checkpoints
	var findings []string
	for _, then := range old.Checkpoints {
		if then.Rows == 0 {
			continue
		}
		fault, err := continues(ctx, client, then, today[then.Log])
		switch {
		case err != nil:
			return err
		case fault != nil:
			findings = append(findings, then.Log+": "+fault.Error())
		default:
			report.Today = append(report.Today, auditLogToday{Log: then.Log, Then: then.Rows, Now: today[then.Log].Rows})
			report.say("%s: its %d rows of today begin with the %d that the export saw.\n", visible(then.Log), today[then.Log].Rows, then.Rows)
		}
	}
	if len(findings) > 0 {
		report.notWhole(file+" and the cluster", findings...)
	}
	return nil
}

var (
	errNoLogToday = errors.New("the cluster has no such log")
	errOtherRoot  = errors.New("the cluster has as many rows as the export saw, and they are others")
)

// continues asks for the proof that a log was only added to. A fault is what the cluster cannot prove; an error is that it
// could not be asked.
func continues(ctx context.Context, client *apiClient, then, now wire.AuditCheckpoint) (fault, err error) {
	oldRoot, ok := parseHash(then.Root)
	newRoot, known := parseHash(now.Root)
	switch {
	case !ok:
		return errNoCheckpoint, nil
	case !known:
		return errNoLogToday, nil
	case now.Rows < then.Rows:
		return fmt.Errorf("the answering node has %d rows, the export saw %d: it is behind, or rows are gone; ask another node",
			now.Rows, then.Rows), nil
	case now.Rows == then.Rows && oldRoot != newRoot:
		return errOtherRoot, nil
	case now.Rows == then.Rows:
		return nil, nil
	}
	query := url.Values{"log": {then.Log}, "from": {strconv.FormatUint(then.Rows, 10)}, "to": {strconv.FormatUint(now.Rows, 10)}}
	var answer wire.AuditConsistency
	if _, err := client.call(ctx, apiRequest{method: http.MethodGet, path: auditPath + "/consistency", query: query}, &answer); err != nil {
		return nil, err
	}
	proof, well := parseHashes(answer.Proof)
	if !well {
		return errForm, nil
	}
	return audit.VerifyPrefix(proof, then.Rows, oldRoot, now.Rows, newRoot), nil
}
