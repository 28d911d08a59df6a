import { chmod, lstat, rm } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { hasCode } from '../agent-core/util/files.ts'
import { ensureSocketFolder } from '../agent-core/state/socket-path.ts'
import { messageOf } from '../agent-core/util/message-of.ts'
import { probeSocket } from './client/probe-socket.ts'
import { Session, type SessionOptions } from './session.ts'

export interface SocketServerOptions extends Omit<SessionOptions, 'socket'> {
  readonly socketPath: string
  readonly stateDir: string
}

export interface SocketServer extends AsyncDisposable {
  readonly connections: number
  /** Ends every connection and removes the socket. */
  close(): Promise<void>
}

export type SocketServerResult =
  | { readonly ok: true; readonly server: SocketServer }
  | { readonly ok: false; readonly reason: 'taken' | 'unusable'; readonly message: string }

/** Windows, menus and terminals of one person; the next one waits in the kernel's queue. */
const maxConnections = 32

/** How long a closing server lets a client read what was already sent to it. */
const closeMs = 1_000

/**
 * Serves the agent to this user's own programs. A socket file whose agent is gone is replaced; the lock of the
 * state folder must be held, since two agents could both take the same file for a leftover.
 */
export async function serveOnSocket(options: SocketServerOptions): Promise<SocketServerResult> {
  const { socketPath, stateDir, ...session } = options
  const sessions = new Map<Socket, Session>()
  const server = createServer((socket) => {
    sessions.set(socket, new Session({ socket, ...session }))
    socket.once('close', () => sessions.delete(socket))
  })
  server.maxConnections = maxConnections
  try {
    await ensureSocketFolder(socketPath, stateDir)
    if (!(await listened(server, socketPath))) {
      if (await probeSocket(socketPath, stateDir)) return taken(socketPath)
      if (!(await lstat(socketPath)).isSocket()) throw new Error('there is a file in its place that is no socket')
      await rm(socketPath)
      if (!(await listened(server, socketPath))) return taken(socketPath)
    }
    await chmod(socketPath, 0o600)
  } catch (error) {
    server.close()
    const why = messageOf(error)
    return { ok: false, reason: 'unusable', message: `The socket ${socketPath} cannot be used: ${why}.` }
  }
  server.on('error', session.onError)
  const close = () => closeServer(server, sessions)
  return {
    ok: true,
    server: {
      get connections() {
        return sessions.size
      },
      close,
      [Symbol.asyncDispose]: close,
    },
  }
}

function taken(socketPath: string): SocketServerResult {
  return { ok: false, reason: 'taken', message: `Another agent answers on the socket ${socketPath}.` }
}

/** False where something is in the way. */
function listened(server: Server, path: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => {
      if (hasCode(error, 'EADDRINUSE')) resolve(false)
      else reject(error)
    }
    server.once('error', onError)
    server.listen(path, () => {
      server.off('error', onError)
      resolve(true)
    })
  })
}

function closeServer(server: Server, sessions: ReadonlyMap<Socket, Session>): Promise<void> {
  return new Promise((resolve) => {
    if (!server.listening) {
      resolve()
      return
    }
    const timer = setTimeout(() => {
      for (const socket of sessions.keys()) socket.destroy()
    }, closeMs).unref()
    server.close(() => {
      clearTimeout(timer)
      resolve()
    })
    for (const session of sessions.values()) session.close()
  })
}
