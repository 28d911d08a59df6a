import { describe, expect, test } from 'vitest'
import { proxyFor } from '../../../src/agent-core/util/proxy.ts'

const proxy = 'http://proxy.test:3128'
const way = (noProxy: string, url: string) =>
  proxyFor({ HTTP_PROXY: proxy, HTTPS_PROXY: proxy, NO_PROXY: noProxy }, new URL(url)) === undefined
    ? 'direct'
    : 'proxy'

/** What golang.org/x/net/http/httpproxy v0.49.0 (12 January 2026) printed for each of them, with Go 1.26.8. */
const ofGo = [
  ['10.0.0.0/8', 'http://10.1.2.3:9000', 'direct'],
  ['10.0.0.0/8', 'http://11.1.2.3', 'proxy'],
  ['10.0.0.0/8', 'http://minio.lan', 'proxy'],
  ['10.0.0.0/8', 'http://[::ffff:10.1.2.3]', 'direct'],
  ['127.0.0.0/8, fd00::/8 ,192.168.1.0/24', 'https://192.168.1.7', 'direct'],
  ['fd00::/8', 'https://[fd12::1]', 'direct'],
  ['fd00::/8', 'https://[2001:db8::1]', 'proxy'],
  ['10.0.0.0/33', 'http://10.1.2.3', 'proxy'],
  ['10.', 'http://10.1.2.3', 'proxy'],
  ['10.1.2.3', 'http://10.1.2.3:9000', 'direct'],
  ['10.1.2.3:9000', 'http://10.1.2.3:9000', 'direct'],
  ['10.1.2.3:9000', 'http://10.1.2.3', 'proxy'],
  ['10.1.2.3:80', 'http://10.1.2.3', 'direct'],
  ['2001:db8::1', 'https://[2001:db8::1]:6443', 'direct'],
  ['2001:DB8:0::1', 'https://[2001:db8::1]', 'direct'],
  ['[2001:db8::1]:443', 'https://[2001:db8::1]', 'direct'],
  ['[2001:db8::1]:443', 'https://[2001:db8::1]:6443', 'proxy'],
  ['corp.test', 'https://corp.test', 'direct'],
  ['corp.test', 'https://kube.corp.test', 'direct'],
  ['corp.test', 'https://notcorp.test', 'proxy'],
  ['CORP.Test', 'https://kube.corp.test', 'direct'],
  ['.corp.test', 'https://kube.corp.test', 'direct'],
  ['.corp.test', 'https://corp.test', 'proxy'],
  ['*.corp.test', 'https://a.b.corp.test', 'direct'],
  ['*.corp.test', 'https://corp.test', 'proxy'],
  ['corp.test:443', 'https://corp.test', 'direct'],
  ['corp.test:443', 'https://corp.test:6443', 'proxy'],
  ['.corp.test:80', 'http://a.corp.test', 'direct'],
  ['*', 'https://corp.test', 'direct'],
  ['other.test, *', 'https://10.1.2.3', 'direct'],
  ['*:443', 'https://corp.test', 'proxy'],
  ['*.0.0.1', 'http://10.0.0.1', 'proxy'],
  [':443', 'https://corp.test', 'proxy'],
  ['.', 'https://corp.test', 'proxy'],
  ['münchen.test', 'https://xn--mnchen-3ya.test', 'direct'],
  ['', 'http://localhost:8080', 'direct'],
  ['', 'https://127.9.9.9:6443', 'direct'],
  ['', 'https://[::1]:6443', 'direct'],
  ['', 'http://[::ffff:127.0.0.1]', 'direct'],
  ['', 'http://a.localhost', 'proxy'],
  ['', 'http://0.0.0.0', 'proxy'],
  ['', 'https://corp.test', 'proxy'],
]

/** Where curl (8.17, lib/noproxy.c) or plain sense is kinder than Go. */
const kinder = [
  ['10.0.0.0/8 b.test', 'https://b.test', 'direct'],
  ['[2001:db8::1]', 'https://[2001:db8::1]', 'direct'],
  ['corp.test.', 'https://corp.test', 'direct'],
  ['corp.test', 'https://corp.test.', 'direct'],
]

test.each([...ofGo, ...kinder])('NO_PROXY=%s and %s: %s', (noProxy = '', url = '', expected) => {
  expect(way(noProxy, url)).toBe(expected)
})

describe('the proxy itself', () => {
  test.each([
    ['corp:3128', 'http://corp:3128/'],
    ['127.0.0.1:1', 'http://127.0.0.1:1/'],
    ['https://me:pa55@corp', 'https://me:pa55@corp/'],
    ['socks5h://corp:1080', 'socks5h://corp:1080'],
    [' ', undefined],
  ])('may be stated as %s', (stated, expected) => {
    expect(proxyFor({ https_proxy: stated, HTTP_PROXY: proxy }, new URL('https://a.test'))?.href).toBe(expected)
  })

  test('is refused with the name of the variable and without its password', () => {
    expect(() => proxyFor({ HTTPS_PROXY: 'ftp://me:secret@x' }, new URL('https://a.test'))).toThrow(
      'HTTPS_PROXY is no address of a proxy: write http://host:port, % as %25 and # as %23.',
    )
  })
})
