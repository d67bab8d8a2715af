package rpc

import (
	"antirobot/message"
	"antirobot/rules"
)

// multicalls reads the one parameter of system.multicall: a list of structs of methodName and params. A call that is not
// right has its error in failed, and hinders no other.
func multicalls(params any) ([]request, error) {
	list, _ := params.([]any)
	if len(list) != 1 {
		return nil, rules.Faultf(message.CodeType, "system.multicall takes one list of calls")
	}
	calls, ok := list[0].([]any)
	if !ok || len(calls) > maxBatch {
		return nil, rules.Faultf(message.CodeType, "system.multicall takes a list of at most %d calls", maxBatch)
	}
	out := make([]request, len(calls))
	for i, c := range calls {
		fields, _ := c.(map[string]any)
		out[i].method, ok = fields["methodName"].(string)
		if !ok {
			out[i].failed = rules.Faultf(message.CodeCommand, "the call names no command")
			continue
		}
		out[i].params, out[i].failed = onlyStruct(fields["params"])
	}
	return out, nil
}
