import { createReadStream } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'

/** A process that serves the file it is given in several ways, and says its port and, at `/sending`, what it has sent. */
const file = process.argv[2] ?? ''
let sentBytes = 0
/** Answers that are under way. */
let open = 0

const ways: Record<string, (request: IncomingMessage, response: ServerResponse) => void | Promise<void>> = {
  '/ranges': async (request, response) => {
    const { size } = await stat(file)
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? []
    const [start, end] = [Number(from), Math.min(Number(to), size - 1)]
    const headers = { 'content-range': `bytes ${start}-${end}/${size}`, 'content-length': end - start + 1 }
    response.writeHead(206, headers)
    createReadStream(file, { start, end }).pipe(response)
  },
  '/no-ranges': async (_, response) => {
    response.writeHead(200, { 'content-length': (await stat(file)).size })
    createReadStream(file).pipe(response)
  },
  '/refused-ranges': (request, response) => {
    if (request.headers.range !== undefined) response.writeHead(416).end()
    else createReadStream(file).pipe(response)
  },
  '/no-length': (_, response) => void createReadStream(file).pipe(response),
  '/cut': async (_, response) => void response.end((await readFile(file)).subarray(0, 3_000)),
  '/html': (_, response) => void response.end('<!DOCTYPE html>\n<title>Log in</title>'),
  '/silent': (_, response) => void response.writeHead(200).write('GGUF'),
}

const server = createServer((request, response) => {
  if (request.url === '/sending') {
    response.end(JSON.stringify({ sentBytes, open }))
    return
  }
  open += 1
  response.on('close', () => {
    open -= 1
  })
  const write = response.write.bind(response)
  response.write = (chunk: Buffer, ...rest: never[]) => {
    sentBytes += chunk.length
    return write(chunk, ...rest)
  }
  const path = request.url?.replace(/\?.*$/, '') ?? ''
  void (ways[path] ?? ((_, missing) => void missing.writeHead(404).end()))(request, response)
})
server.listen(0, '127.0.0.1', () => process.stdout.write(`${JSON.stringify(server.address())}\n`))
