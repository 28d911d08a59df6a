import { execFile } from 'node:child_process'
import { randomBytes, randomInt } from 'node:crypto'
import { promisify } from 'node:util'

/** A second host as far as the network goes: its own interfaces, ports and loopback. Needs root; ask {@link missingNetworkNamespaces} first. */
export interface NetworkNamespace extends AsyncDisposable {
  /** This side's address of the only cable there is. */
  readonly here: string
  /** The other side's. */
  readonly there: string
  /** This side's address of IPv6. */
  readonly hereOfSix: string
  /** Gives this side one more address, which the other side reaches too. */
  alsoHere(): Promise<string>
  /** Takes it away again. */
  loseHere(address: string): Promise<void>
  /** From now on nothing that the other side sends gets here, as behind a firewall that drops it. */
  drops(): Promise<void>
  /** From now on the other side is told that this one cannot be reached, as by a firewall that rejects what is sent. */
  rejects(): Promise<void>
  /** The command and arguments that run a program over there. */
  enter(command: readonly string[]): [string, ...string[]]
}

const run = promisify(execFile)
const ip = async (...args: string[]): Promise<void> => {
  await run('ip', args)
}

export async function createNetworkNamespace(): Promise<NetworkNamespace> {
  // Names of interfaces have at most 15 characters.
  const id = randomBytes(4).toString('hex')
  const [name, near, far] = [`metalbar-${id}`, `mb${id}a`, `mb${id}b`]
  const subnet = `10.213.${randomInt(1, 255)}`
  const [here, there] = [`${subnet}.1`, `${subnet}.2`]
  const ofSix = `fd00:213:${randomInt(1, 0xffff).toString(16)}:`
  const hereOfSix = `${ofSix}:1`
  await using made = new AsyncDisposableStack()
  await ip('netns', 'add', name)
  made.defer(() => ip('netns', 'delete', name))
  await ip('link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', name)
  await ip('address', 'add', `${here}/30`, 'dev', near)
  await ip('link', 'set', near, 'up')
  await ip('-n', name, 'address', 'add', `${there}/30`, 'dev', far)
  await ip('-n', name, 'link', 'set', far, 'up')
  // Without the look for another host that has it, during which it cannot be used.
  await ip('address', 'add', `${hereOfSix}/64`, 'dev', near, 'nodad')
  await ip('-n', name, 'address', 'add', `${ofSix}:2/64`, 'dev', far, 'nodad')
  await ip('-n', name, 'link', 'set', 'lo', 'up')
  const kept = made.move()
  return {
    here,
    there,
    hereOfSix,
    async alsoHere() {
      const address = `${subnet}.9`
      await ip('address', 'add', `${address}/32`, 'dev', near)
      await ip('-n', name, 'route', 'add', address, 'via', here)
      return address
    },
    loseHere: (address) => ip('address', 'delete', `${address}/32`, 'dev', near),
    // To a card that nobody has.
    drops: () =>
      ip('-n', name, 'neighbour', 'replace', here, 'lladdr', '02:00:00:00:00:01', 'nud', 'permanent', 'dev', far),
    rejects: () => ip('-n', name, 'route', 'add', 'unreachable', `${here}/32`),
    enter: (command) => ['ip', 'netns', 'exec', name, ...command],
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  }
}
