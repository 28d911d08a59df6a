import { Banner } from '../components/banner.tsx'
import { Button } from '../components/button.tsx'
import { Sentence } from '../components/sentence.tsx'
import { useSnapshot, useWindow } from '../store.ts'
import { usePressed } from '../use-pressed.ts'
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
      {host.address === undefined && (
        <Banner tone="warn">
          <Sentence text={host.message} />
        </Banner>
      )}
      {notices.map((notice) => (
        <Banner key={notice} tone="note">
          <Sentence text={notice} />
        </Banner>
      ))}
    </>
  )
}

/** Models start with care, since this machine ended while they ran. */
function HeldAfterPanic() {
  const fuse = useSnapshot((snapshot) => snapshot.panicFuse)
  const ask = useWindow((state) => state.ask)
  const command = { name: 'serveAgain' } as const
  const pressed = usePressed('node', command)
  if (fuse === undefined) return undefined
  return (
    <Banner
      tone="warn"
      actions={
        <Button look="prominent" {...pressed} onPress={() => void ask('node', command)}>
          {fuse.state === 'held' ? overviewWords.serveAgain : overviewWords.startAll}
        </Button>
      }
    >
      <Sentence text={fuse.message} />
    </Banner>
  )
}

function Paused() {
  const ask = useWindow((state) => state.ask)
  const command = { name: 'resumeNode' } as const
  const pressed = usePressed('node', command)
  return (
    <Banner
      tone="warn"
      actions={
        <Button look="prominent" {...pressed} onPress={() => void ask('node', command)}>
          {overviewWords.resume}
        </Button>
      }
    >
      {overviewWords.paused}
    </Banner>
  )
}
