// control-plane is the part of a Kubernetes cluster that tests need, in one binary: etcd and kube-apiserver in one
// process, and kube-controller-manager in another. It ends when its standard input ends, so that a killed test run
// leaves nothing behind.
package main

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

const usage = "usage: control-plane apiserver ETCD-FOLDER [kube-apiserver flags] | controller-manager [flags]\n"

// A request in flight may finish; a watch would hold the process open for ever.
const shutdownLimit = 5 * time.Second

func main() {
	go endWithStandardInput()
	args := os.Args[1:]
	switch {
	case len(args) >= 2 && args[0] == "apiserver":
		run(apiserver.NewAPIServerCommand(), append([]string{"--etcd-servers=" + startEtcd(args[1])}, args[2:]...))
	case len(args) >= 1 && args[0] == "controller-manager":
		run(controllers.NewControllerManagerCommand(), args[1:])
	default:
		fail(usage)
	}
}

func run(command *cobra.Command, args []string) {
	command.SetArgs(args)
	os.Exit(cli.Run(command))
}

// startEtcd returns the address clients reach it under. Losing the last writes in a power cut is fine here, and without
// fsync a slow disk does not decide how long a test takes.
func startEtcd(folder string) string {
	anyPort := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	config := embed.NewConfig()
	config.Dir = folder
	config.UnsafeNoFsync = true
	config.LogLevel = "error"
	config.ListenClientUrls, config.AdvertiseClientUrls = anyPort, anyPort
	config.ListenPeerUrls, config.AdvertisePeerUrls = anyPort, anyPort
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		fail(fmt.Sprintf("etcd did not start in %s: %v\n", folder, err))
	}
	<-etcd.Server.ReadyNotify()
	return "http://" + etcd.Clients[0].Addr().String()
}

func endWithStandardInput() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
	time.Sleep(shutdownLimit)
	os.Exit(1)
}

func fail(message string) {
	fmt.Fprint(os.Stderr, message)
	os.Exit(2)
}
