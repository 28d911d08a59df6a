import { dirname, join } from 'node:path'
import { controlPlanePart } from '../../../tasks/setup/control-plane.ts'

/** A program and its first arguments. */
export type Command = readonly [string, ...string[]]

/** How the API server is started from what this machine has; `etcd` only where it is a process of its own. */
export interface ApiServerCommands {
  readonly etcd?: (folder: string, clientPort: number, peerPort: number) => Command
  readonly apiServer: (etcdFolder: string, etcdPort: number | undefined) => Command
}

export function apiServerCommands(): ApiServerCommands {
  const found = controlPlanePart.find()
  if (!found.found) throw new Error(found.reason)
  if (found.origin === 'built') return { apiServer: (etcdFolder) => [found.path, 'apiserver', etcdFolder] }
  return {
    etcd: (folder, clientPort, peerPort) =>
      endingWithStandardInput(
        join(dirname(found.path), 'etcd'),
        ...['--data-dir', folder, '--unsafe-no-fsync', '--log-level', 'error'],
        ...['--listen-client-urls', loopback(clientPort), '--advertise-client-urls', loopback(clientPort)],
        ...['--listen-peer-urls', loopback(peerPort), '--initial-advertise-peer-urls', loopback(peerPort)],
        ...['--initial-cluster', `default=${loopback(peerPort)}`],
      ),
    apiServer: (_, etcdPort = 0) => endingWithStandardInput(found.path, `--etcd-servers=${loopback(etcdPort)}`),
  }
}

function loopback(port: number): string {
  return `http://127.0.0.1:${port}`
}

/** Others' programs do not watch their standard input: a shell does it for them. */
function endingWithStandardInput(program: string, ...args: string[]): Command {
  const script =
    'exec 3<&0; "$@" </dev/null 3<&- & child=$!; (cat <&3 >/dev/null; kill $child) & exec 3<&-; wait $child'
  return ['/bin/sh', '-c', script, 'sh', program, ...args]
}
