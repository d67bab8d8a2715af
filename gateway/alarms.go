package gateway

import (
	"strings"
	"time"

	"antirobot/alarm"
	"antirobot/journal"
	"antirobot/problem"
)

// openAlarms begins to watch over what the other parts say of themselves.
func (a *Server) openAlarms() (err error) {
	a.alarms, err = alarm.New(a.Config().Alarms, alarm.Deps{Look: a.sight, Log: a.Logger("alarms"), Metrics: a.set})
	if err != nil {
		return problem.At("alarms", err)
	}
	a.alarms.Start()
	return nil
}

// The spans of time whose requests are compared.
const (
	late   = 30 * time.Minute
	before = 24 * time.Hour
)

// sight is what the watch sees.
func (a *Server) sight(at time.Time) alarm.Sight {
	counts := a.counts()
	s := alarm.Sight{Obtaining: a.Certificates(), Store: a.Store().Error, Shed: counts["shed"] + counts["journal-shed"]}
	c := a.challenges()
	s.Machines = c.MachinesSolve
	for i := range c.Networks {
		s.Networks = append(s.Networks, alarm.Network{Tried: c.Networks[i].Tried, Solved: c.Networks[i].Solved})
	}
	for _, l := range a.lists.Stats().Lists {
		if l.LastError != "" {
			s.Lists = append(s.Lists, alarm.List{Name: l.Name, Age: l.Age})
		}
	}
	for _, v := range a.Services() {
		for _, u := range v.Upstreams {
			if !u.Healthy {
				s.Away = append(s.Away, v.Name+" "+u.Address)
			}
		}
	}
	for _, c := range a.certs {
		for name, until := range c.Ends() {
			s.Certificates = append(s.Certificates, alarm.Certificate{Name: name, Until: until})
		}
	}
	if a.journal != nil {
		s.Late = a.share("minute", at.Add(-late), at)
		s.Before = a.share("hour", at.Add(-late-before), at.Add(-late))
	}
	return s
}

// share sums up the requests between two times, and those of them that were stopped.
func (a *Server) share(by string, from, to time.Time) (s alarm.Share) {
	all, err := a.journal.Figures(by, from, to)
	if err != nil {
		return s // the journal is being closed
	}
	for i := range all {
		requests, stopped := stoppedOf(&all[i])
		s.Requests += requests
		s.Stopped += stopped
	}
	return s
}

// stoppedOf counts the requests of a span, and those of them that were stopped, or would have been.
func stoppedOf(f *journal.Figures) (requests, stopped float64) {
	for name, n := range f.Counts {
		verdict, ok := strings.CutPrefix(name, "requests/")
		if !ok {
			continue
		}
		requests += n
		if strings.HasPrefix(verdict, "robot") || strings.HasPrefix(verdict, "blocked") {
			stopped += n
		}
	}
	return requests, stopped
}
