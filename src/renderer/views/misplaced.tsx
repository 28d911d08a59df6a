import { useState } from 'react'
import type { AppBridge, Misplaced } from '../../contract/app-bridge.ts'
import { Banner } from '../components/banner.tsx'
import { Button } from '../components/button.tsx'
import { misplacedWords } from '../words/settings/updates.ts'

interface MisplacedAppProps {
  readonly app: AppBridge
  readonly misplaced: Misplaced
}

/** The app runs where it cannot stay. */
export function MisplacedApp({ app, misplaced }: MisplacedAppProps) {
  const [problem, setProblem] = useState<string>()
  const move = async () => {
    const reply = await app.moveToApplications()
    setProblem(reply.ok ? reply.value?.message : reply.failure.message)
  }
  return (
    <Banner tone="warn" actions={<Button onPress={() => void move()}>{misplacedWords.move}</Button>}>
      {misplacedWords.where[misplaced]} {misplacedWords.why}
      {problem !== undefined && <p role="alert">{problem}</p>}
    </Banner>
  )
}
