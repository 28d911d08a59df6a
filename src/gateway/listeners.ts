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
  /** Undefined until somebody wants the address. */
  onConnection: ((socket: Socket) => void) | undefined
  /** Connections that came before. */
  readonly early: Socket[]
  state: ListenerState | undefined
  again?: NodeJS.Timeout
}

/**
 * The addresses at which this process takes connections. One that is taken by another program is tried again until it is free. A process that
 * replaces this one receives the open ones, so that nobody who connects meanwhile is refused.
 */
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
    for (const { onConnection, ...address } of wanted) {
      const known = this.#entries.get(keyOf(address))
      const entry = known ?? this.#add(address)
      entry.onConnection = onConnection
      for (const socket of entry.early.splice(0)) onConnection(socket)
      if (!known) this.#open(entry)
    }
  }

  /** Listens with what another process has opened. Connections wait until the address is wanted. */
  take(address: Address, opened: Server): void {
    const known = this.#entries.get(keyOf(address))
    if (known) this.#stop(keyOf(address), known)
    const entry = this.#add(address)
    if (known?.onConnection) entry.onConnection = known.onConnection
    // The received object is of the same handle, and has none of these options.
    this.#serve(entry, (server) => server.listen(opened))
  }

  /** What is open, for the process that replaces this one. Both take connections until this one stops. */
  get opened(): { readonly address: Address; readonly server: Server }[] {
    return [...this.#entries.values()].flatMap(({ host, port, server }) =>
      server?.listening === true ? [{ address: { host, port }, server }] : [],
    )
  }

  #add({ host, port }: Address): Entry {
    const entry: Entry = { host, port, server: undefined, onConnection: undefined, early: [], state: undefined }
    this.#entries.set(keyOf(entry), entry)
    return entry
  }

  #stop(key: string, entry: Entry): void {
    this.#entries.delete(key)
    clearTimeout(entry.again)
    entry.server?.close()
    for (const socket of entry.early.splice(0)) socket.destroy()
  }

  #open(entry: Entry): void {
    const { host, port } = entry
    this.#serve(entry, (server) => server.listen({ host, port, exclusive: true }))
  }

  #serve(entry: Entry, listen: (server: Server) => void): void {
    // As those of an HTTP server are.
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      if (entry.onConnection) entry.onConnection(socket)
      else entry.early.push(socket.on('error', () => socket.destroy()))
    })
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
    listen(server)
  }

  #tell(entry: Entry, problem?: string): void {
    entry.state = { host: entry.host, port: entry.port, ...(problem !== undefined && { problem }) }
    this.#onState(entry.state)
  }
}

const keyOf = ({ host, port }: Address): string => `${host} ${port}`
