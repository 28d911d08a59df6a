import { createServer, request as forward } from 'node:http'
import { connect, type AddressInfo } from 'node:net'

/** An HTTP proxy: CONNECT, and requests with a whole address. Argument: its options as JSON. */
const { login, refuses } = JSON.parse(process.argv[2] ?? '{}') as { login?: string; refuses?: number }
const seen: string[] = []

process.on('message', () => process.send?.(seen))
process.on('disconnect', () => process.exit(0))

const wanted = login === undefined ? undefined : `Basic ${Buffer.from(login).toString('base64')}`
const refusal = (authorization: string | undefined): number | undefined =>
  refuses ?? (wanted !== undefined && authorization !== wanted ? 407 : undefined)

const server = createServer((request, response) => {
  seen.push(`${request.method} ${request.url}`)
  const status = refusal(request.headers['proxy-authorization'])
  if (status !== undefined) {
    response.writeHead(status).end()
    return
  }
  const { 'proxy-authorization': _, ...headers } = request.headers
  const onward = forward(request.url ?? '', { method: request.method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(response)
  })
  onward.on('error', () => response.destroy())
  request.pipe(onward)
})
server.on('connect', (request, socket, head) => {
  seen.push(`CONNECT ${request.url}`)
  const status = refusal(request.headers['proxy-authorization'])
  if (status !== undefined) {
    socket.end(`HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n\r\n`)
    return
  }
  const [host = '', port = ''] = (request.url ?? '').split(':')
  const onward = connect(Number(port), host, () => {
    socket.write('HTTP/1.1 200 Connection established\r\n\r\n')
    onward.write(head)
    onward.pipe(socket).pipe(onward)
  })
  onward.on('error', () => socket.destroy())
  socket.on('error', () => onward.destroy())
})
server.listen(0, '127.0.0.1', () => process.send?.({ kind: 'listening', port: (server.address() as AddressInfo).port }))
