import { Banner } from '../components/banner.tsx'
import { Button } from '../components/button.tsx'
import { useSnapshot, useWindow } from '../store.ts'
import { overviewWords } from '../words/connection.ts'
import { Answer } from './answer.tsx'

/** What a person should know of this machine, the most important first. */
export function Banners() {
  const host = useSnapshot((snapshot) => snapshot.host)
  const notices = useSnapshot((snapshot) => snapshot.notices)
  return (
    <>
      {host.paused && <Paused />}
      <HeldAfterPanic />
      <Answer about="node" />
      {host.address === undefined && <Banner tone="warn">{host.message}</Banner>}
      {notices.map((notice) => (
        <Banner key={notice} tone="note">
          {notice}
        </Banner>
      ))}
    </>
  )
}

/** Models start with care, since this machine ended while they ran. */
function HeldAfterPanic() {
  const fuse = useSnapshot((snapshot) => snapshot.panicFuse)
  const ask = useWindow((state) => state.ask)
  const pending = useWindow(({ requests }) => requests['node']?.state === 'pending')
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  if (fuse === undefined) return undefined
  return (
    <Banner
      tone="warn"
      actions={
        <Button
          look="prominent"
          disabled={disabled}
          pending={pending}
          onPress={() => void ask('node', { name: 'serveAgain' })}
        >
          {fuse.state === 'held' ? overviewWords.serveAgain : overviewWords.startAll}
        </Button>
      }
    >
      {fuse.message}
    </Banner>
  )
}

function Paused() {
  const ask = useWindow((state) => state.ask)
  const pending = useWindow(({ requests }) => requests['node']?.state === 'pending')
  const disabled = useWindow(({ connection }) => connection.state !== 'live')
  return (
    <Banner
      tone="warn"
      actions={
        <Button
          look="prominent"
          disabled={disabled}
          pending={pending}
          onPress={() => void ask('node', { name: 'resumeNode' })}
        >
          {overviewWords.resume}
        </Button>
      }
    >
      {overviewWords.paused}
    </Banner>
  )
}
