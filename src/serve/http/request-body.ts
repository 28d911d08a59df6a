import type { IncomingMessage } from 'node:http'
import { parseJson } from '../../agent-core/util/files.ts'
import { maxBodyBytes } from '../../contract/http.ts'
import { requestTooLong } from '../failures.ts'
import { HttpRefusal } from './http-refusal.ts'

/** The client ended the connection, so that no answer can be sent. */
export class ClientGoneError extends Error {
  override readonly name = 'ClientGoneError'
}

/** Undefined where it is no JSON. Throws {@link HttpRefusal} as soon as it is too long, and {@link ClientGoneError}. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  if (Number(request.headers['content-length'] ?? 0) > maxBodyBytes) throw tooLong()
  return parseJson(await readText(request))
}

function readText(request: IncomingMessage): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let bytes = 0
    const onData = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes <= maxBodyBytes) {
        chunks.push(chunk)
        return
      }
      request.off('data', onData).pause()
      reject(tooLong())
    }
    request.on('data', onData)
    request.once('end', () => resolve(Buffer.concat(chunks).toString('utf8')))
    request.once('error', (error) => reject(new ClientGoneError('The request broke off.', { cause: error })))
    request.once('close', () => reject(new ClientGoneError('The request broke off.')))
  })
}

function tooLong(): HttpRefusal {
  const { code, message } = requestTooLong(maxBodyBytes)
  return new HttpRefusal({ status: 413, code, message })
}
