# /// attack
# guarantee = "filesystem_read"
# summary = "Reads through a chain of symbolic links that leads out."
# reference = "symlink(7)"
# success = "the secret is read"
# stage = ["canary"]
# observe = ["secret"]
# refusal = { process = "errno EACCES", default = "errno ENOENT" }
# ///

ln -s "$ATTACK_CANARY" one && ln -s one two && ln -s ../"$(basename "$PWD")"/two three || exit 44
if LC_ALL=C cat three 2>message; then
    exit 42
fi
grep -q "No such file or directory" message && echo "REFUSED ENOENT" && exit 43
grep -q "Permission denied" message && echo "REFUSED EACCES" && exit 43
cat message
exit 44
