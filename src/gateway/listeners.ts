import { createServer, type Server, type Socket } from 'node:net'

const openAgainMs = 2_000

export interface Address {
  readonly host: string
  readonly port: number
}

export interface Listener extends Address {
  readonly onConnection: (socket: Socket) => void
}

export interface ListenerState extends Address {
  /** The system's code for why it does not listen yet. */
  readonly problem?: string
}

interface Entry extends Address {
  server: Server | undefined
  onConnection: (socket: Socket) => void
  state: ListenerState | undefined
  again?: NodeJS.Timeout
}

/** The addresses at which this process takes connections. One that is taken by another program is tried again until it is free. */
export class Listeners {
  readonly #onState: (state: ListenerState) => void
  readonly #entries = new Map<string, Entry>()

  /** `onState` hears of each address when it is opened, and when it cannot be. */
  constructor(onState: (state: ListenerState) => void) {
    this.#onState = onState
  }

  /** What is known of each address by now. */
  get states(): ListenerState[] {
    return [...this.#entries.values()].flatMap(({ state }) => state ?? [])
  }

  /** Listens at these addresses and at no other; connections at the others stay as they are. */
  set(wanted: readonly Listener[]): void {
    const keys = new Set(wanted.map(keyOf))
    for (const [key, entry] of this.#entries) if (!keys.has(key)) this.#stop(key, entry)
    for (const { host, port, onConnection } of wanted) {
      const known = this.#entries.get(keyOf({ host, port }))
      if (known) {
        known.onConnection = onConnection
        continue
      }
      const entry: Entry = { host, port, onConnection, server: undefined, state: undefined }
      this.#entries.set(keyOf(entry), entry)
      this.#open(entry)
    }
  }

  #stop(key: string, entry: Entry): void {
    this.#entries.delete(key)
    clearTimeout(entry.again)
    entry.server?.close()
  }

  #open(entry: Entry): void {
    const { host, port } = entry
    // As those of an HTTP server are.
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => entry.onConnection(socket))
    entry.server = server
    const isCurrent = (): boolean => this.#entries.get(keyOf(entry)) === entry
    server.on('error', (error: NodeJS.ErrnoException) => {
      // One that could not accept a connection still listens.
      if (!isCurrent() || server.listening) return
      this.#tell(entry, error.code ?? error.message)
      entry.again = setTimeout(() => this.#open(entry), openAgainMs)
    })
    server.on('listening', () => {
      if (isCurrent()) this.#tell(entry)
    })
    server.listen({ host, port, exclusive: true })
  }

  #tell(entry: Entry, problem?: string): void {
    entry.state = { host: entry.host, port: entry.port, ...(problem !== undefined && { problem }) }
    this.#onState(entry.state)
  }
}

const keyOf = ({ host, port }: Address): string => `${host} ${port}`
